/// What Sluice needs of Linux and Glibc's Swift module lacks: epoll, accept4, splice, sync_file_range, ioctl, extended attributes.
///
/// Thin wrappers only, all with the prefix `csys_`; they return what the call returns, and errors stay in `errno`.
/// No system header is included here: their feature macros would clash with those of Swift's own modules.
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
/// A non-blocking eventfd, closed on exec.
int csys_eventfd(void);
/// Adds `fd` edge-triggered for reading, writing and hang-up; `token` is handed back by `csys_epoll_wait`.
int csys_epoll_add(int epoll, int fd, uint64_t token);
/// Stops telling of `fd`, which was added, or starts again and then tells at once what it is ready for.
int csys_epoll_mute(int epoll, int fd, uint64_t token, int is_mute);
/// Adds `fd`, which is only read, edge-triggered.
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
/// Makes calls on the socket wait, at most so many milliseconds (then they fail with EAGAIN); 0 makes them not wait.
int csys_block(int socket, int timeout_ms);
int csys_pipe(int fds[2], int size);
/// Socket to pipe, blocking on neither.
int64_t csys_splice_in(int socket, int pipe, size_t count);
/// Pipe to file at `*offset`, which is moved on.
int64_t csys_splice_out(int pipe, int file, int64_t *offset, size_t count);
/// File at `*offset`, which is moved on, to socket.
int64_t csys_sendfile(int socket, int file, int64_t *offset, size_t count);
/// File to file.
int64_t csys_copy_range(int from, int64_t from_offset, int to, int64_t to_offset, size_t count);
/// Starts writing dirty pages of the range to the disk, without waiting for it.
int csys_start_writeback(int file, int64_t offset, int64_t count);
/// Writes dirty pages of a file from `offset` on to the disk and waits for it; the disk may still hold them in its cache.
int csys_write_out(int file, int64_t offset);
/// Sets an extended attribute (xattr(7)) of an open file.
int csys_set_attribute(int file, const char *name, const void *value, size_t count);
/// Reads an extended attribute of an open file; returns its bytes, which are at most `capacity`.
int64_t csys_get_attribute(int file, const char *name, void *value, size_t capacity);
/// Removes an extended attribute of the file with this path, for tests.
int csys_remove_attribute(const char *path, const char *name);
/// Whether the file system that holds an open file is kept in memory only (tmpfs, ramfs); -1 if that cannot be told.
int csys_is_in_memory(int file);
/// Sets blocks of the disk aside for the range; the size of the file stays as it is.
int csys_preallocate(int file, int64_t offset, int64_t count);
/// A new file without a name in this directory, for reading and writing, closed on exec.
int csys_open_unnamed(const char *directory);
/// Opens with O_CLOEXEC.
int csys_open(const char *path, int flags, uint32_t mode);
/// Takes an exclusive advisory lock on the open file, without waiting.
int csys_lock(int fd);
/// Bounds how many heaps malloc keeps for its threads.
int csys_limit_heaps(int count);

/// Gives unused pages of malloc's heaps back to the system; takes milliseconds.
void csys_trim_heaps(void);

/// Moves the register of CRC-32C (RFC 3720 §12.1) on over some bytes, by the processor's instruction if it has one.
uint32_t csys_crc32c(uint32_t state, const void *bytes, size_t count);
/// The same by tables only, for tests.
uint32_t csys_crc32c_by_tables(uint32_t state, const void *bytes, size_t count);

/// Reflected CRCs, by the names of the catalogue of parametrised CRC algorithms: CRC-64/XZ, CRC-64/NVME, CRC-32/ISO-HDLC.
enum csys_crc_kind { CSYS_CRC64_XZ, CSYS_CRC64_NVME, CSYS_CRC32, CSYS_CRC_COUNT };
/// Moves a register (that of a CRC of 32 bits in the low half) on over some bytes, by carry-less multiplication if the
/// processor has it.
uint64_t csys_crc(enum csys_crc_kind kind, uint64_t state, const void *bytes, size_t count);
/// The same by tables only, for tests.
uint64_t csys_crc_by_tables(enum csys_crc_kind kind, uint64_t state, const void *bytes, size_t count);

/// Moves the registers of MD5 (RFC 1321 §3.4) of four messages on over so many blocks of 64 bytes of each; the four values
/// of a register are beside each other.
void csys_md5_four(uint32_t state[4][4], const uint8_t *const messages[4], size_t blocks);
/// The same without instructions that not every processor has, for tests.
void csys_md5_four_portable(uint32_t state[4][4], const uint8_t *const messages[4], size_t blocks);

#endif
