#define _GNU_SOURCE
#include "CSystem.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

const uint32_t csys_epollin = EPOLLIN;
const uint32_t csys_epollout = EPOLLOUT;
const uint32_t csys_epollrdhup = EPOLLRDHUP;
const uint32_t csys_epollhup = EPOLLHUP;
const uint32_t csys_epollerr = EPOLLERR;

int csys_epoll_create(void) { return epoll_create1(EPOLL_CLOEXEC); }

int csys_eventfd(void) { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }

int csys_epoll_add(int epoll, int fd, uint64_t token) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data = {.u64 = token}};
    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

int csys_epoll_mute(int epoll, int fd, uint64_t token, int is_mute) {
    struct epoll_event event = {
        .events = is_mute ? EPOLLET : EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data = {.u64 = token}};
    return epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event);
}

int csys_epoll_add_reader(int epoll, int fd, uint64_t token) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data = {.u64 = token}};
    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

int csys_epoll_remove(int epoll, int fd) { return epoll_ctl(epoll, EPOLL_CTL_DEL, fd, 0); }

int csys_epoll_wait(int epoll, uint64_t *tokens, uint32_t *events, int capacity, int timeout) {
    struct epoll_event found[256];
    int count = epoll_wait(epoll, found, capacity > 256 ? 256 : capacity, timeout);
    for (int i = 0; i < count; i++) {
        tokens[i] = found[i].data.u64;
        events[i] = found[i].events;
    }
    return count;
}

int csys_accept(int fd, void *address, uint32_t *length) {
    socklen_t size = *length;
    int accepted = accept4(fd, address, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    *length = size;
    return accepted;
}

static int set_option(int fd, int level, int name, int value) {
    return setsockopt(fd, level, name, &value, sizeof(value));
}

int csys_tcp_nodelay(int fd) { return set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1); }

int csys_receive_low_water(int fd, int bytes) { return set_option(fd, SOL_SOCKET, SO_RCVLOWAT, bytes); }

int csys_bytes_readable(int fd) {
    int count = 0;
    return ioctl(fd, FIONREAD, &count) == 0 ? count : -1;
}

int csys_block(int socket, int timeout_ms) {
    int flags = fcntl(socket, F_GETFL);
    if (flags < 0) return -1;
    if (timeout_ms <= 0) return fcntl(socket, F_SETFL, flags | O_NONBLOCK);
    struct timeval timeout = {.tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000};
    if (setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) != 0) return -1;
    if (setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) != 0) return -1;
    return fcntl(socket, F_SETFL, flags & ~O_NONBLOCK);
}

int csys_pipe(int fds[2], int size) {
    if (pipe2(fds, O_CLOEXEC) != 0) return -1;
    // A user near the pipe limit gets a smaller pipe, which also works.
    for (int wanted = size; wanted >= 65536; wanted /= 2)
        if (fcntl(fds[1], F_SETPIPE_SZ, wanted) >= 0) break;
    return 0;
}

int64_t csys_splice_in(int socket, int pipe, size_t count) {
    return splice(socket, 0, pipe, 0, count, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
}

int64_t csys_splice_out(int pipe, int file, int64_t offset, size_t count) {
    off64_t position = offset;
    return splice(pipe, 0, file, &position, count, SPLICE_F_MOVE);
}

int64_t csys_sendfile(int socket, int file, int64_t offset, size_t count) {
    off64_t position = offset;
    return sendfile64(socket, file, &position, count);
}

int64_t csys_copy_range(int from, int64_t from_offset, int to, int64_t to_offset, size_t count) {
    off64_t in = from_offset, out = to_offset;
    return copy_file_range(from, &in, to, &out, count, 0);
}

int csys_start_writeback(int file, int64_t offset, int64_t count) {
    return sync_file_range(file, offset, count, SYNC_FILE_RANGE_WRITE);
}

int csys_write_out(int file, int64_t offset) {
    return sync_file_range(
        file, offset, 0, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
}

int csys_set_attribute(int file, const char *name, const void *value, size_t count) {
    return fsetxattr(file, name, value, count, 0);
}

int64_t csys_get_attribute(int file, const char *name, void *value, size_t capacity) {
    return fgetxattr(file, name, value, capacity);
}

int csys_remove_attribute(const char *path, const char *name) { return removexattr(path, name); }

int csys_is_in_memory(int file) {
    struct statfs status;
    if (fstatfs(file, &status) != 0) return -1;
    // TMPFS_MAGIC and RAMFS_MAGIC of statfs(2).
    return (uint32_t)status.f_type == 0x01021994 || (uint32_t)status.f_type == 0x858458f6;
}

int csys_preallocate(int file, int64_t offset, int64_t count) {
    return fallocate64(file, FALLOC_FL_KEEP_SIZE, offset, count);
}

int csys_open(int directory, const char *path, int flags, uint32_t mode) {
    return openat(directory, path, flags | O_CLOEXEC, mode);
}

int csys_chmod_socket(const char *path, uint32_t mode) {
    int file = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (file == -1) return -1;
    struct stat status;
    int result = fstat(file, &status);
    if (result == 0 && !S_ISSOCK(status.st_mode)) {
        errno = EEXIST;
        result = -1;
    }
    if (result == 0) {
        // fchmod does not take such a descriptor, and of a socket it changes another mode.
        char name[32];
        snprintf(name, sizeof name, "/proc/self/fd/%d", file);
        result = chmod(name, mode);
    }
    int error = errno;
    close(file);
    errno = error;
    return result;
}

int csys_open_beneath(int directory, const char *path, int flags, uint32_t mode) {
    flags |= O_CLOEXEC | O_NOFOLLOW;
    // A pipe in the place of a file must not stop the thread. For files and directories the flag means nothing.
    if (!(flags & O_PATH)) flags |= O_NONBLOCK;
    struct open_how how = {
        .flags = (uint64_t)(uint32_t)flags,
        .mode = flags & O_CREAT ? mode : 0,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
    };
    int file = (int)syscall(SYS_openat2, directory, path, &how, sizeof how);
    // Linux before 5.6, and containers whose filter does not know the call.
    if (file == -1 && (errno == ENOSYS || errno == EPERM)) return openat(directory, path, flags, mode);
    return file;
}

// The directory of a path, and the name in it. A path of one name is in the directory itself, which must not be closed.
static int open_parent(int directory, const char *path, const char **name) {
    const char *slash = strrchr(path, '/');
    *name = slash ? slash + 1 : path;
    if (!slash) return directory;
    char parent[PATH_MAX];
    size_t count = (size_t)(slash - path);
    if (count >= sizeof parent) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(parent, path, count);
    parent[count] = 0;
    return csys_open_beneath(directory, parent, O_PATH | O_DIRECTORY, 0);
}

static void close_parent(int parent, int directory) {
    int error = errno;
    if (parent != directory) close(parent);
    errno = error;
}

int csys_unlink_beneath(int directory, const char *path, int is_directory) {
    const char *name;
    int parent = open_parent(directory, path, &name);
    if (parent == -1) return -1;
    int result = unlinkat(parent, name, is_directory ? AT_REMOVEDIR : 0);
    close_parent(parent, directory);
    return result;
}

int csys_mkdir_beneath(int directory, const char *path, uint32_t mode) {
    const char *name;
    int parent = open_parent(directory, path, &name);
    if (parent == -1) return -1;
    int result = mkdirat(parent, name, mode);
    close_parent(parent, directory);
    return result;
}

int csys_rename_beneath(int from_directory, const char *from, int to_directory, const char *to) {
    const char *from_name, *to_name;
    int from_parent = open_parent(from_directory, from, &from_name);
    if (from_parent == -1) return -1;
    int to_parent = open_parent(to_directory, to, &to_name);
    int result = to_parent == -1 ? -1 : renameat(from_parent, from_name, to_parent, to_name);
    if (to_parent != -1) close_parent(to_parent, to_directory);
    close_parent(from_parent, from_directory);
    return result;
}

int csys_copies_on_write(int file) {
    struct statfs status;
    // BTRFS_SUPER_MAGIC of statfs(2).
    return fstatfs(file, &status) == 0 && (uint32_t)status.f_type == 0x9123683e;
}

int csys_overwrite_in_place(int file) {
    int flags = 0;
    if (ioctl(file, FS_IOC_GETFLAGS, &flags) != 0) return -1;
    flags |= FS_NOCOW_FL;
    return ioctl(file, FS_IOC_SETFLAGS, &flags);
}

int csys_lock(int fd) { return flock(fd, LOCK_EX | LOCK_NB); }

int csys_limit_heaps(int count) { return mallopt(M_ARENA_MAX, count); }

void csys_trim_heaps(void) { malloc_trim(1 << 20); }

/// Whether the dynamic linker wrote into the code of an object; these pages are not those of its file.
static int has_text_relocations(const ElfW(Dyn) *entry) {
    for (; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_TEXTREL || (entry->d_tag == DT_FLAGS && entry->d_un.d_val & DF_TEXTREL)) return 1;
    }
    return 0;
}

static int unmap_pages(struct dl_phdr_info *object, size_t size, void *context) {
    (void)size, (void)context;
    // The object that the kernel maps is not a file.
    if (object->dlpi_addr == getauxval(AT_SYSINFO_EHDR)) return 0;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &object->dlpi_phdr[i];
        if (header->p_type != PT_DYNAMIC) continue;
        if (has_text_relocations((const ElfW(Dyn) *)(object->dlpi_addr + header->p_vaddr))) return 0;
    }
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &object->dlpi_phdr[i];
        if (header->p_type != PT_LOAD || header->p_flags & PF_W) continue;
        // Whole pages only: what shares a page with another segment stays.
        uintptr_t start = (object->dlpi_addr + header->p_vaddr + page - 1) & ~(page - 1);
        uintptr_t end = (object->dlpi_addr + header->p_vaddr + header->p_memsz) & ~(page - 1);
        if (start < end) (void)madvise((void *)start, end - start, MADV_DONTNEED);
    }
    return 0;
}

void csys_unmap_program_pages(void) { dl_iterate_phdr(unmap_pages, NULL); }

int csys_open_unnamed(int start, const char *directory) {
    return openat(start, directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

static _Thread_local int is_blocking_thread;

void csys_note_blocking_thread(void) { is_blocking_thread = 1; }

int csys_is_blocking_thread(void) { return is_blocking_thread; }

int csys_syncfs(int descriptor) { return syncfs(descriptor); }
