// Each write of 64 KiB or more waits first, for a process that is started with this as LD_PRELOAD: a test can then look at
// it while it copies a file. See faults.py, which builds it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

ssize_t pwrite(int file, const void *bytes, size_t count, off_t offset) {
    ssize_t (*next)(int, const void *, size_t, off_t) = dlsym(RTLD_NEXT, "pwrite");
    const struct timespec wait = {.tv_nsec = 50000000};
    if (count >= 65536) nanosleep(&wait, 0);
    return next(file, bytes, count, offset);
}

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t offset) { return pwrite(file, bytes, count, offset); }
