// Programs as child processes: posix_spawn(3) with all that a child must not inherit taken away.

#define _GNU_SOURCE
#include "CSystem.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

// Of Linux 6.3, which the headers may not know yet: nothing in the file can be executed.
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

int csys_memory_file(const char *name, const void *bytes, size_t count) {
    int file = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (file < 0 && errno == EINVAL) file = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file < 0) return -1;
    for (size_t written = 0; written < count;) {
        ssize_t result = pwrite(file, (const char *)bytes + written, count - written, (off_t)written);
        if (result < 0 && errno == EINTR) continue;
        if (result <= 0) {
            int error = result < 0 ? errno : ENOSPC;
            close(file);
            errno = error;
            return -1;
        }
        written += (size_t)result;
    }
    // The position is still 0: there the child begins to read.
    fcntl(file, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
    return file;
}

static int describe(posix_spawnattr_t *attributes, posix_spawn_file_actions_t *actions, const char *directory,
                    const int descriptors[3]) {
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    int error = posix_spawnattr_setflags(attributes,
                                         POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    // SIGPIPE, for example, is ignored here, and what is ignored stays so across exec.
    if (error == 0) error = posix_spawnattr_setsigdefault(attributes, &all);
    if (error == 0) error = posix_spawnattr_setsigmask(attributes, &none);
    if (error == 0) error = posix_spawn_file_actions_addchdir_np(actions, directory);
    for (int number = 0; number < 3 && error == 0; number++)
        error = posix_spawn_file_actions_adddup2(actions, descriptors[number], number);
    // Libraries may have opened descriptors without O_CLOEXEC.
    if (error == 0) error = posix_spawn_file_actions_addclosefrom_np(actions, 3);
    return error;
}

int csys_spawn(const char *path, const char *directory, char *const *arguments, char *const *environment, int input,
               int output, int errors, int32_t *process) {
    int given[3] = {input, output, errors};
    int descriptors[3] = {-1, -1, -1};
    int error = 0;
    // If this process began without descriptors 0 to 2, the given ones can have these numbers, and would replace each other.
    for (int number = 0; number < 3 && error == 0; number++) {
        descriptors[number] = given[number] > 2 ? given[number] : fcntl(given[number], F_DUPFD_CLOEXEC, 3);
        if (descriptors[number] < 0) error = errno;
    }
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    if (error == 0 && (error = posix_spawnattr_init(&attributes)) == 0) {
        if ((error = posix_spawn_file_actions_init(&actions)) == 0) {
            pid_t pid = 0;
            error = describe(&attributes, &actions, directory, descriptors);
            if (error == 0) error = posix_spawn(&pid, path, &actions, &attributes, arguments, environment);
            if (error == 0) *process = pid;
            posix_spawn_file_actions_destroy(&actions);
        }
        posix_spawnattr_destroy(&attributes);
    }
    for (int number = 0; number < 3; number++)
        if (descriptors[number] >= 0 && descriptors[number] != given[number]) close(descriptors[number]);
    errno = error;
    return error == 0 ? 0 : -1;
}

int csys_process_descriptor(int32_t process) {
#ifdef SYS_pidfd_open
    return (int)syscall(SYS_pidfd_open, process, 0);
#else
    errno = ENOSYS;
    return -1;
#endif
}

int csys_child_end(int32_t process, int *status, int *signal) {
    siginfo_t info = {.si_pid = 0};
    int result;
    do result = waitid(P_PID, (id_t)process, &info, WEXITED | WNOHANG | WNOWAIT);
    while (result != 0 && errno == EINTR);
    if (result != 0) return -1;
    if (info.si_pid == 0) return 0;
    *status = info.si_code == CLD_EXITED ? info.si_status : -1;
    *signal = info.si_code == CLD_EXITED ? 0 : info.si_status;
    return 1;
}

void csys_reap(int32_t process) {
    siginfo_t info;
    while (waitid(P_PID, (id_t)process, &info, WEXITED) != 0 && errno == EINTR) continue;
}

int csys_reap_group(int32_t group) {
    siginfo_t info = {.si_pid = 0};
    int result;
    do result = waitid(P_PGID, (id_t)group, &info, WEXITED | WNOHANG);
    while (result != 0 && errno == EINTR);
    if (result != 0) return -1;
    return info.si_pid == 0 ? 0 : 1;
}
