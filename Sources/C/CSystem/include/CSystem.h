/// Linux calls that the Glibc module of Swift lacks: epoll, accept4, splice, sync_file_range, ioctl, extended attributes,
/// child processes.
///
/// Thin wrappers with the prefix `csys_`. They return the result of the call and leave errors in `errno`.
/// This file includes no system header: their feature macros would clash with those of Swift's own modules.
#ifndef CSYSTEM_H
#define CSYSTEM_H

#include <stddef.h>
#include <stdint.h>

extern const uint32_t csys_epollin;
extern const uint32_t csys_epollout;
extern const uint32_t csys_epollrdhup;
extern const uint32_t csys_epollhup;
extern const uint32_t csys_epollerr;

int csys_epoll_create(void);
/// Creates a non-blocking eventfd, closed on exec.
int csys_eventfd(void);
/// Adds `fd` edge-triggered for reading, writing and hang-up; `csys_epoll_wait` returns its `token`.
int csys_epoll_add(int epoll, int fd, uint64_t token);
/// Suspends the events of `fd`, or resumes them; resuming reports the current readiness at once.
int csys_epoll_mute(int epoll, int fd, uint64_t token, int is_mute);
/// Adds `fd` edge-triggered for reading only.
int csys_epoll_add_reader(int epoll, int fd, uint64_t token);
int csys_epoll_remove(int epoll, int fd);
/// Waits for at most `timeout` ms; fills `tokens` and `events` (at most 256); returns how many, or -1.
int csys_epoll_wait(int epoll, uint64_t *tokens, uint32_t *events, int capacity, int timeout);

/// Accepts a connection: non-blocking, closed on exec. `address` holds at least 128 bytes.
int csys_accept(int fd, void *address, uint32_t *length);
int csys_tcp_nodelay(int fd);
int csys_receive_low_water(int fd, int bytes);
/// Bytes that can be read now, or -1.
int csys_bytes_readable(int fd);

/// Makes a pipe of `size` bytes (as near as the kernel allows), closed on exec.
/// Makes calls on the socket block for at most this many milliseconds (then they fail with EAGAIN); 0 makes it non-blocking.
int csys_block(int socket, int timeout_ms);
int csys_pipe(int fds[2], int size);
/// Moves bytes from a socket to a pipe without blocking on either.
int64_t csys_splice_in(int socket, int pipe, size_t count);
/// Moves bytes from a pipe to a file at `offset`.
int64_t csys_splice_out(int pipe, int file, int64_t offset, size_t count);
/// Sends bytes of a file from `offset` to a socket.
int64_t csys_sendfile(int socket, int file, int64_t offset, size_t count);
/// Copies bytes between files.
int64_t csys_copy_range(int from, int64_t from_offset, int to, int64_t to_offset, size_t count);
/// Starts writing the dirty pages of the range to the disk, without waiting.
int csys_start_writeback(int file, int64_t offset, int64_t count);
/// Writes dirty pages of a file from `offset` to the disk and waits; the disk may still hold them in its cache.
int csys_write_out(int file, int64_t offset);
/// Sets an extended attribute (xattr(7)) of an open file.
int csys_set_attribute(int file, const char *name, const void *value, size_t count);
/// Reads an extended attribute of an open file; returns its size, at most `capacity`.
int64_t csys_get_attribute(int file, const char *name, void *value, size_t capacity);
/// Removes an extended attribute of the file at this path; for tests.
int csys_remove_attribute(const char *path, const char *name);
/// Whether the file system of an open file writes each change to other blocks (Btrfs).
int csys_copies_on_write(int file);
/// Makes an empty file of such a file system overwrite its blocks in place (FS_NOCOW_FL).
int csys_overwrite_in_place(int file);
/// Whether the file system of an open file is in memory (tmpfs, ramfs); -1 if unknown.
int csys_is_in_memory(int file);
/// Allocates disk blocks for the range without changing the size of the file.
int csys_preallocate(int file, int64_t offset, int64_t count);
/// Creates a file without a name in this directory, for reading and writing, closed on exec.
int csys_open_unnamed(int start, const char *directory);
/// Changes the mode of the socket at this path; EEXIST if anything else is there, also a link to one.
int csys_chmod_socket(const char *path, uint32_t mode);
/// openat(2) with O_CLOEXEC.
int csys_open(int directory, const char *path, int flags, uint32_t mode);
/// The same for a relative path, of which no part may be a symbolic link. It waits for nothing.
int csys_open_beneath(int directory, const char *path, int flags, uint32_t mode);
/// unlinkat(2) for a relative path, of which no part before the last may be a symbolic link; so are the following.
int csys_unlink_beneath(int directory, const char *path, int is_directory);
int csys_mkdir_beneath(int directory, const char *path, uint32_t mode);
int csys_rename_beneath(int from_directory, const char *from, int to_directory, const char *to);
/// Takes an exclusive advisory lock on the open file without waiting.
int csys_lock(int fd);
/// Notes that the current thread may block: it belongs to a pool for that.
void csys_note_blocking_thread(void);
/// Whether the current thread may block.
int csys_is_blocking_thread(void);
/// Limits the number of heaps that malloc keeps for threads.
int csys_limit_heaps(int count);

/// Returns unused pages of malloc's heaps to the system; takes milliseconds.
void csys_trim_heaps(void);
/// Unmaps the pages of the program and its libraries that are not writable; each is mapped again from the page cache when it is next
/// used. Takes a millisecond. Breakpoints that were set before are lost.
void csys_unmap_program_pages(void);

/// Makes a file in memory with this content, which nothing can change, closed on exec; its position is 0.
int csys_memory_file(const char *name, const void *bytes, size_t count);
/// Runs a program as a child: in a session and process group of its own, in this directory, with default signals and with
/// these three descriptors only, as 0 to 2. Both arrays end with a null pointer.
int csys_spawn(const char *path, const char *directory, char *const *arguments, char *const *environment, int input,
               int output, int errors, int32_t *process);
/// A descriptor that can be read when the process has ended, closed on exec; -1 before Linux 5.3.
int csys_process_descriptor(int32_t process);
/// Whether a child has ended, which it does not reap: 1 with its exit status or the signal that ended it, 0 if it runs.
int csys_child_end(int32_t process, int *status, int *signal);
/// Reaps a child that has ended.
void csys_reap(int32_t process);
/// Reaps one child of a process group: 1 if there was one, 0 if there are some and none has ended, -1 if there are none.
int csys_reap_group(int32_t group);

/// syncfs(2): forces everything written to the file system of a file to stable storage.
int csys_syncfs(int descriptor);

/// Updates a register of CRC-32C (RFC 3720 §12.1) with some bytes; uses the processor's instruction if there is one.
uint32_t csys_crc32c(uint32_t state, const void *bytes, size_t count);
/// The same with tables only, for tests.
uint32_t csys_crc32c_by_tables(uint32_t state, const void *bytes, size_t count);

/// Reflected CRCs, named as in the catalogue of parametrised CRC algorithms: CRC-64/XZ, CRC-64/NVME, CRC-32/ISO-HDLC.
enum csys_crc_kind { CSYS_CRC64_XZ, CSYS_CRC64_NVME, CSYS_CRC32, CSYS_CRC_COUNT };
/// Updates a register with some bytes; a 32-bit register is in the low half. Uses carry-less multiplication if the processor
/// has it.
uint64_t csys_crc(enum csys_crc_kind kind, uint64_t state, const void *bytes, size_t count);
/// The same with tables only, for tests.
uint64_t csys_crc_by_tables(enum csys_crc_kind kind, uint64_t state, const void *bytes, size_t count);

/// Updates the MD5 registers (RFC 1321 §3.4) of four messages with this many blocks of 64 bytes of each. The four values of a
/// register are adjacent.
void csys_md5_four(uint32_t state[4][4], const uint8_t *const messages[4], size_t blocks);
/// The same without optional processor instructions, for tests.
void csys_md5_four_portable(uint32_t state[4][4], const uint8_t *const messages[4], size_t blocks);

#endif
