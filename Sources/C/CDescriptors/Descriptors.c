// While work waits, libdispatch asks /proc each second which of its threads run, and ends the process where it cannot
// open a file. In the program this is its `open` and its `close`: without a free descriptor it gets a standing one, which
// says of each thread that it runs, and which stays open. They are hidden: libdispatch is part of the program, and shared
// libraries keep those of libc.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))

static int standing = -1;

__attribute__((constructor)) static void prepare(void) {
    static const char text[] = "0 (thread) R 0";
    int made = memfd_create("threads", MFD_CLOEXEC);
    if (made < 0) return;
    // Not among those that a program or a service manager counts from.
    int moved = fcntl(made, F_DUPFD_CLOEXEC, 32);
    if (moved >= 0 && write(moved, text, strlen(text)) == (ssize_t)strlen(text)) standing = moved;
    syscall(SYS_close, made);
}

static int is_of_thread(const char *path) {
    int thread, length = 0;
    return sscanf(path, "/proc/%d/stat%n", &thread, &length) == 1 && length > 0 && path[length] == 0;
}

HIDDEN int open(const char *path, int flags, ...) {
    mode_t mode = 0;
    if ((flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE) {
        va_list rest;
        va_start(rest, flags);
        mode = (mode_t)va_arg(rest, unsigned int);
        va_end(rest);
    }
    int result = openat(AT_FDCWD, path, flags, mode);
    if (result >= 0 || (errno != EMFILE && errno != ENFILE) || standing < 0) return result;
    int error = errno;
    if (is_of_thread(path) && lseek(standing, 0, SEEK_SET) == 0) return standing;
    errno = error;
    return result;
}

HIDDEN int close(int descriptor) {
    if (descriptor >= 0 && descriptor == standing) return 0;
    return (int)syscall(SYS_close, descriptor);
}
