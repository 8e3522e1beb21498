// System calls that fail, for a process that is started with this as LD_PRELOAD. See faults.py, which builds and steers it.
//
// Only calls on files below FAULTS_ROOT count. FAULTS_CONTROL names a file with a `struct control`, which the
// process and the test map: the test writes the rule, the process counts.
//
// Syncs are not forwarded, because there is no power cut; instead each inode has a list of its writes since the last good
// sync. A failed sync undoes them, like Linux when it drops the pages of a failed write: the file keeps its size and has the
// earlier bytes, or zeros. As in Linux (errseq_t), each descriptor that was open gets the error once, and later syncs
// succeed.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

// In the order of KINDS in faults.py.
enum kind {
    OPEN, CREATE, READ, PREAD, PWRITE, WRITE, WRITEV, SPLICE, COPY, ALLOCATE, TRUNCATE, FSYNC, FDATASYNC, WRITEBACK,
    RENAME, UNLINK, MKDIR, RMDIR, SETXATTR, GETXATTR, OPENDIR, LINK, KINDS = 32
};
static const char *const names[KINDS] = {
    "open", "create", "read", "pread", "pwrite", "write", "writev", "splice", "copy_file_range", "fallocate",
    "ftruncate", "fsync", "fdatasync", "sync_file_range", "rename", "unlink", "mkdir", "rmdir", "setxattr", "getxattr",
    "opendir", "link",
};

// In the order of PLACES in faults.py.
enum place { BLOBS, STATE, WAL, SHM, OTHER, PLACES = 8 };

#define LOG_LINES 64
#define LOG_WIDTH 192
#define SLOTS 65536

// Written and not synced; here because that is so after the end of the process as well. Free if count is 0.
struct slot {
    uint64_t device, number;
    int64_t start, count;
};

struct control {
    _Atomic int32_t armed;
    int32_t sticky;    // goes on failing
    int32_t is_short;  // writes half of it first
    uint32_t kinds;    // bits
    uint32_t places;   // bits
    int32_t unused;
    _Atomic int64_t countdown;  // the call that takes it to 0 fails
    _Atomic int64_t fired;
    int32_t numbers[KINDS];  // errno
    char pattern[128];       // fnmatch(3), of the path below the root
    _Atomic int64_t seen[KINDS][PLACES];
    _Atomic int64_t injected[KINDS][PLACES];
    _Atomic int64_t undone;  // bytes that failed syncs took back
    _Atomic int64_t lines;
    char log[LOG_LINES][LOG_WIDTH];
    struct slot slots[SLOTS];
};

static struct control *control;
static char root[PATH_MAX];
static size_t root_length;

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

static void recall(void);

__attribute__((constructor)) static void prepare(void) {
    const char *path = getenv("FAULTS_CONTROL"), *folder = getenv("FAULTS_ROOT");
    if (!path || !folder) return;
    REAL(int, open, const char *, int, ...);
    int file = real(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return;
    void *mapped = mmap(0, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (mapped == MAP_FAILED) return;
    root_length = (size_t)snprintf(root, sizeof root, "%s/", folder);
    control = mapped;
    recall();
}

// MARK: Which file

// The path below the root, or NULL.
static const char *below(const char *path) {
    if (!control || !path || strncmp(path, root, root_length - 1) != 0) return NULL;
    if (path[root_length - 1] == 0) return "";
    return path[root_length - 1] == '/' ? path + root_length : NULL;
}

static const char *path_of(int file, char *buffer) {
    if (!control || file < 0) return NULL;
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t count = readlink(link, buffer, PATH_MAX - 1);
    if (count < 0) return NULL;
    buffer[count] = 0;
    return below(buffer);
}

static const char *path_at(int folder, const char *path, char *buffer) {
    if (path[0] == '/' || folder == AT_FDCWD) return below(path);
    const char *base = path_of(folder, buffer);
    if (!base) return NULL;
    size_t length = strlen(buffer);
    snprintf(buffer + length, PATH_MAX - length, "/%s", path);
    return below(buffer);
}

static enum place place_of(const char *path) {
    if (strncmp(path, "blobs", 5) == 0 || strncmp(path, "quarantine", 10) == 0) return BLOBS;
    if (strcmp(path, "state.sqlite") == 0) return STATE;
    if (strcmp(path, "state.sqlite-wal") == 0) return WAL;
    if (strcmp(path, "state.sqlite-shm") == 0) return SHM;
    return OTHER;
}

// MARK: The rule

enum verdict { PASS, SHORTEN, FAIL };

static void note(enum kind kind, const char *path, const char *what) {
    int64_t line = atomic_fetch_add(&control->lines, 1) % LOG_LINES;
    snprintf(control->log[line], LOG_WIDTH, "%s %s: %s", names[kind], path, what);
}

// Counts the call; FAIL comes with errno set.
static enum verdict judge(enum kind kind, const char *path) {
    if (!control || !path) return PASS;
    enum place place = place_of(path);
    atomic_fetch_add(&control->seen[kind][place], 1);
    if (!atomic_load(&control->armed)) return PASS;
    if (!(control->kinds >> kind & 1) || !(control->places >> place & 1)) return PASS;
    if (control->pattern[0] && fnmatch(control->pattern, path, 0) != 0) return PASS;
    int64_t left = atomic_fetch_sub(&control->countdown, 1) - 1;
    if (control->is_short && left == 0 && (kind == PWRITE || kind == WRITE || kind == SPLICE || kind == COPY)) {
        note(kind, path, "short");
        return SHORTEN;
    }
    // What is behind a short one fails.
    if (left > 0 || (left < 0 && !control->sticky && !(control->is_short && left == -1))) return PASS;
    atomic_fetch_add(&control->fired, 1);
    atomic_fetch_add(&control->injected[kind][place], 1);
    int number = control->numbers[kind] ? control->numbers[kind] : EIO;
    note(kind, path, strerrorname_np(number));
    errno = number;
    return FAIL;
}

static size_t half(size_t count) { return count > 1 ? count / 2 : count; }

// MARK: What is not synced

struct piece {
    int64_t start, count;
    char *old;  // NULL: zeros
    struct slot *slot;
    struct piece *before;
};

struct inode {
    dev_t device;
    ino_t number;
    int64_t errors;  // syncs that failed
    int error;
    struct piece *last;
    struct inode *next;
};

#define BUCKETS 4096
#define DESCRIPTORS 65536
static struct inode *inodes[BUCKETS];
// Errors that were seen by a descriptor, or had been when it was opened.
static struct {
    dev_t device;
    ino_t number;
    int64_t errors;
} descriptors[DESCRIPTORS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static struct inode *inode_with(dev_t device, ino_t number) {
    struct inode **bucket = &inodes[number % BUCKETS], *inode;
    for (inode = *bucket; inode; inode = inode->next)
        if (inode->number == number && inode->device == device) return inode;
    inode = calloc(1, sizeof *inode);
    inode->device = device;
    inode->number = number;
    inode->next = *bucket;
    return *bucket = inode;
}

static struct inode *inode_of(const struct stat *status) { return inode_with(status->st_dev, status->st_ino); }

static void forget(struct inode *inode) {
    while (inode->last) {
        struct piece *piece = inode->last;
        inode->last = piece->before;
        piece->slot->count = 0;
        free(piece->old);
        free(piece);
    }
}

static void remember(struct inode *inode, int64_t start, int64_t count, char *old) {
    if (count <= 0) return free(old);
    if (!old && inode->last && !inode->last->old && inode->last->start + inode->last->count == start) {
        inode->last->count += count;
        inode->last->slot->count += count;
        return;
    }
    static size_t next = 0;
    size_t tried = 0;
    while (control->slots[next % SLOTS].count) {
        next++;
        if (++tried == SLOTS) abort();
    }
    struct slot *slot = &control->slots[next++ % SLOTS];
    *slot = (struct slot){inode->device, inode->number, start, count};
    struct piece *piece = malloc(sizeof *piece);
    *piece = (struct piece){start, count, old, slot, inode->last};
    inode->last = piece;
}

// Of a process before this one. The overwritten bytes are unknown: zeros.
static void recall(void) {
    for (struct slot *slot = control->slots; slot < control->slots + SLOTS; slot++) {
        if (!slot->count) continue;
        struct inode *inode = inode_with(slot->device, slot->number);
        struct piece *piece = malloc(sizeof *piece);
        *piece = (struct piece){slot->start, slot->count, NULL, slot, inode->last};
        inode->last = piece;
    }
}

static ssize_t real_pread(int file, void *bytes, size_t count, off_t offset) {
    REAL(ssize_t, pread, int, void *, size_t, off_t);
    return real(file, bytes, count, offset);
}

static ssize_t real_pwrite(int file, const void *bytes, size_t count, off_t offset) {
    REAL(ssize_t, pwrite, int, const void *, size_t, off_t);
    return real(file, bytes, count, offset);
}

// A writer's own descriptor may be for writing only.
static int reopened(int file, int flags) {
    REAL(int, open, const char *, int, ...);
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    return real(link, flags | O_CLOEXEC);
}

struct writing {
    struct inode *inode;
    int64_t start, old_count;
    char *old;
};

// Takes the lock, and keeps what is about to be overwritten.
static struct writing begin(int file, int64_t start, size_t count) {
    struct writing writing = {NULL, start, 0, NULL};
    struct stat status;
    pthread_mutex_lock(&mutex);
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) return writing;
    writing.inode = inode_of(&status);
    if (start >= status.st_size) return writing;
    writing.old_count = start + (int64_t)count > status.st_size ? status.st_size - start : (int64_t)count;
    writing.old = malloc((size_t)writing.old_count);
    int reading = reopened(file, O_RDONLY);
    if (real_pread(reading, writing.old, (size_t)writing.old_count, start) != writing.old_count) {
        memset(writing.old, 0, (size_t)writing.old_count);
    }
    close(reading);
    return writing;
}

static ssize_t end(struct writing writing, ssize_t count) {
    int number = errno;
    if (!writing.inode || count <= 0) {
        free(writing.old);
    } else {
        int64_t old = count < writing.old_count ? count : writing.old_count;
        if (old > 0) remember(writing.inode, writing.start, old, writing.old);
        else free(writing.old);
        remember(writing.inode, writing.start + old, count - old, NULL);
    }
    pthread_mutex_unlock(&mutex);
    errno = number;
    return count;
}

// Takes back what was written since the last good sync, from the newest on. Under the lock.
static void undo(struct inode *inode, int file) {
    static const char zeros[65536];
    int writable = reopened(file, O_WRONLY);
    struct stat status;
    if (writable < 0 || fstat(writable, &status) != 0) return;
    for (struct piece *piece = inode->last; piece; piece = piece->before) {
        int64_t finish = piece->start + piece->count;
        if (finish > status.st_size) finish = status.st_size;
        for (int64_t at = piece->start; at < finish;) {
            size_t count = (size_t)(finish - at);
            if (!piece->old && count > sizeof zeros) count = sizeof zeros;
            ssize_t done = real_pwrite(writable, piece->old ? piece->old + (at - piece->start) : zeros, count, at);
            if (done <= 0) break;
            atomic_fetch_add(&control->undone, done);
            at += done;
        }
    }
    close(writable);
}

// The pages that were not written are dropped, and every descriptor that is open gets the error once. Under the lock.
static void fail(struct inode *inode, int file, const struct stat *status, int number) {
    if (S_ISREG(status->st_mode)) undo(inode, file);
    inode->errors++;
    inode->error = number;
    forget(inode);
}

// The errors that this descriptor got by now. Under the lock.
static void tell(struct inode *inode, int file, const struct stat *status) {
    if (file >= DESCRIPTORS) return;
    descriptors[file].device = status->st_dev;
    descriptors[file].number = status->st_ino;
    descriptors[file].errors = inode->errors;
}

static void opened(int file, const char *path) {
    struct stat status;
    if (file < 0 || !path || fstat(file, &status) != 0) return;
    pthread_mutex_lock(&mutex);
    struct inode *inode = inode_of(&status);
    // Made or emptied now; or a new file with the number of one that is gone.
    if (S_ISREG(status.st_mode) && status.st_size == 0) forget(inode);
    tell(inode, file, &status);
    pthread_mutex_unlock(&mutex);
}

static int synced(enum kind kind, int file) {
    char buffer[PATH_MAX];
    const char *path = path_of(file, buffer);
    struct stat status;
    if (!path || fstat(file, &status) != 0) return -2;
    enum verdict verdict = judge(kind, path);
    int number = verdict == FAIL ? errno : 0;
    pthread_mutex_lock(&mutex);
    struct inode *inode = inode_of(&status);
    if (number) {
        fail(inode, file, &status, number);
    } else if (file < DESCRIPTORS && descriptors[file].device == status.st_dev &&
               descriptors[file].number == status.st_ino && descriptors[file].errors < inode->errors) {
        // Another descriptor met it first.
        number = inode->error;
    }
    // Where another one met it, what came since is written now.
    forget(inode);
    tell(inode, file, &status);
    pthread_mutex_unlock(&mutex);
    errno = number;
    return number ? -1 : 0;
}

// MARK: Calls

#define DEFINE_OPEN(name) \
    int name(const char *path, int flags, ...) { \
        REAL(int, name, const char *, int, ...); \
        mode_t mode = 0; \
        if (flags & (O_CREAT | __O_TMPFILE)) { \
            va_list list; \
            va_start(list, flags); \
            mode = va_arg(list, mode_t); \
            va_end(list); \
        } \
        const char *known = below(path); \
        if (judge(flags & O_CREAT ? CREATE : OPEN, known) == FAIL) return -1; \
        int file = real(path, flags, mode); \
        opened(file, known); \
        return file; \
    }
DEFINE_OPEN(open)
DEFINE_OPEN(open64)

#define DEFINE_OPENAT(name) \
    int name(int folder, const char *path, int flags, ...) { \
        REAL(int, name, int, const char *, int, ...); \
        mode_t mode = 0; \
        if (flags & (O_CREAT | __O_TMPFILE)) { \
            va_list list; \
            va_start(list, flags); \
            mode = va_arg(list, mode_t); \
            va_end(list); \
        } \
        char buffer[PATH_MAX]; \
        const char *known = path_at(folder, path, buffer); \
        if (judge(flags & O_CREAT ? CREATE : OPEN, known) == FAIL) return -1; \
        int file = real(folder, path, flags, mode); \
        opened(file, known); \
        return file; \
    }
DEFINE_OPENAT(openat)
DEFINE_OPENAT(openat64)

// openat2 has no function in glibc. A directory that is only passed through (O_PATH) does not count.
long syscall(long number, ...) {
    REAL(long, syscall, long, ...);
    long values[6];
    va_list list;
    va_start(list, number);
    for (int index = 0; index < 6; index++) values[index] = va_arg(list, long);
    va_end(list);
    const char *known = NULL;
    char buffer[PATH_MAX];
    int is_open = number == SYS_openat2 && !(((const struct open_how *)values[2])->flags & O_PATH);
    if (is_open) {
        uint64_t flags = ((const struct open_how *)values[2])->flags;
        known = path_at((int)values[0], (const char *)values[1], buffer);
        if (judge(flags & O_CREAT ? CREATE : OPEN, known) == FAIL) return -1;
    }
    long result = real(number, values[0], values[1], values[2], values[3], values[4], values[5]);
    if (is_open) opened((int)result, known);
    return result;
}

DIR *opendir(const char *path) {
    REAL(DIR *, opendir, const char *);
    return judge(OPENDIR, below(path)) == FAIL ? NULL : real(path);
}

DIR *fdopendir(int file) {
    REAL(DIR *, fdopendir, int);
    char buffer[PATH_MAX];
    return judge(OPENDIR, path_of(file, buffer)) == FAIL ? NULL : real(file);
}

#define ON_FILE(kind, file) \
    char buffer[PATH_MAX]; \
    const char *path = path_of(file, buffer); \
    if (!path) goto other; \
    enum verdict verdict = judge(kind, path); \
    if (verdict == FAIL) return -1

ssize_t read(int file, void *bytes, size_t count) {
    REAL(ssize_t, read, int, void *, size_t);
    ON_FILE(READ, file);
other:
    return real(file, bytes, count);
}

#define DEFINE_PREAD(name) \
    ssize_t name(int file, void *bytes, size_t count, off_t offset) { \
        ON_FILE(PREAD, file); \
    other: \
        return real_pread(file, bytes, count, offset); \
    }
DEFINE_PREAD(pread)
DEFINE_PREAD(pread64)

#define DEFINE_PWRITE(name) \
    ssize_t name(int file, const void *bytes, size_t count, off_t offset) { \
        ON_FILE(PWRITE, file); \
        if (verdict == SHORTEN) count = half(count); \
        struct writing writing = begin(file, offset, count); \
        return end(writing, real_pwrite(file, bytes, count, offset)); \
    other: \
        return real_pwrite(file, bytes, count, offset); \
    }
DEFINE_PWRITE(pwrite)
DEFINE_PWRITE(pwrite64)

ssize_t write(int file, const void *bytes, size_t count) {
    REAL(ssize_t, write, int, const void *, size_t);
    ON_FILE(WRITE, file);
    if (verdict == SHORTEN) count = half(count);
    struct writing writing = begin(file, lseek(file, 0, SEEK_CUR), count);
    return end(writing, real(file, bytes, count));
other:
    return real(file, bytes, count);
}

ssize_t writev(int file, const struct iovec *list, int count) {
    REAL(ssize_t, writev, int, const struct iovec *, int);
    ON_FILE(WRITEV, file);
    size_t total = 0;
    for (int index = 0; index < count; index++) total += list[index].iov_len;
    struct writing writing = begin(file, lseek(file, 0, SEEK_CUR), total);
    return end(writing, real(file, list, count));
other:
    return real(file, list, count);
}

ssize_t splice(int from, off64_t *in, int to, off64_t *out, size_t count, unsigned flags) {
    REAL(ssize_t, splice, int, off64_t *, int, off64_t *, size_t, unsigned);
    ON_FILE(SPLICE, to);
    if (verdict == SHORTEN) count = half(count);
    struct writing writing = begin(to, out ? *out : lseek(to, 0, SEEK_CUR), count);
    return end(writing, real(from, in, to, out, count, flags));
other:
    return real(from, in, to, out, count, flags);
}

ssize_t copy_file_range(int from, off64_t *in, int to, off64_t *out, size_t count, unsigned flags) {
    REAL(ssize_t, copy_file_range, int, off64_t *, int, off64_t *, size_t, unsigned);
    ON_FILE(COPY, to);
    if (verdict == SHORTEN) count = half(count);
    struct writing writing = begin(to, out ? *out : lseek(to, 0, SEEK_CUR), count);
    return end(writing, real(from, in, to, out, count, flags));
other:
    return real(from, in, to, out, count, flags);
}

#define DEFINE_FALLOCATE(name) \
    int name(int file, int mode, off_t start, off_t count) { \
        REAL(int, name, int, int, off_t, off_t); \
        ON_FILE(ALLOCATE, file); \
    other: \
        return real(file, mode, start, count); \
    }
DEFINE_FALLOCATE(fallocate)
DEFINE_FALLOCATE(fallocate64)

// These return the error.
#define DEFINE_POSIX_FALLOCATE(name) \
    int name(int file, off_t start, off_t count) { \
        REAL(int, name, int, off_t, off_t); \
        char buffer[PATH_MAX]; \
        return judge(ALLOCATE, path_of(file, buffer)) == FAIL ? errno : real(file, start, count); \
    }
DEFINE_POSIX_FALLOCATE(posix_fallocate)
DEFINE_POSIX_FALLOCATE(posix_fallocate64)

// What is cut off was not written, whatever comes there later.
static void cut(int file, off_t size) {
    struct stat status;
    if (fstat(file, &status) != 0) return;
    pthread_mutex_lock(&mutex);
    struct inode *inode = inode_of(&status);
    for (struct piece *piece = inode->last; piece; piece = piece->before) {
        if (piece->start + piece->count <= size) continue;
        // Not nothing, which is what a free slot has: what is behind the end is not written anyhow.
        piece->count = piece->start < size ? size - piece->start : 1;
        piece->slot->count = piece->count;
    }
    pthread_mutex_unlock(&mutex);
}

#define DEFINE_TRUNCATE(name) \
    int name(int file, off_t size) { \
        REAL(int, name, int, off_t); \
        ON_FILE(TRUNCATE, file); \
        cut(file, size); \
    other: \
        return real(file, size); \
    }
DEFINE_TRUNCATE(ftruncate)
DEFINE_TRUNCATE(ftruncate64)

int fsync(int file) {
    REAL(int, fsync, int);
    int result = synced(FSYNC, file);
    return result == -2 ? real(file) : result;
}

int fdatasync(int file) {
    REAL(int, fdatasync, int);
    int result = synced(FDATASYNC, file);
    return result == -2 ? real(file) : result;
}

int sync_file_range(int file, off64_t start, off64_t count, unsigned flags) {
    REAL(int, sync_file_range, int, off64_t, off64_t, unsigned);
    char buffer[PATH_MAX];
    const char *path = path_of(file, buffer);
    if (judge(WRITEBACK, path) != FAIL) return real(file, start, count, flags);
    int number = errno;
    struct stat status;
    // A wait for writeback reports the error of the sync, and the sync then does not.
    if (flags & SYNC_FILE_RANGE_WAIT_AFTER && fstat(file, &status) == 0) {
        pthread_mutex_lock(&mutex);
        struct inode *inode = inode_of(&status);
        fail(inode, file, &status, number);
        tell(inode, file, &status);
        pthread_mutex_unlock(&mutex);
    }
    errno = number;
    return -1;
}

int rename(const char *path, const char *other) {
    REAL(int, rename, const char *, const char *);
    return judge(RENAME, below(path)) == FAIL ? -1 : real(path, other);
}

int renameat(int folder, const char *path, int other_folder, const char *other) {
    REAL(int, renameat, int, const char *, int, const char *);
    char buffer[PATH_MAX];
    return judge(RENAME, path_at(folder, path, buffer)) == FAIL ? -1 : real(folder, path, other_folder, other);
}

int renameat2(int folder, const char *path, int other_folder, const char *other, unsigned flags) {
    REAL(int, renameat2, int, const char *, int, const char *, unsigned);
    char buffer[PATH_MAX];
    return judge(RENAME, path_at(folder, path, buffer)) == FAIL ? -1 : real(folder, path, other_folder, other, flags);
}

int link(const char *path, const char *other) {
    REAL(int, link, const char *, const char *);
    return judge(LINK, below(other)) == FAIL ? -1 : real(path, other);
}

int unlink(const char *path) {
    REAL(int, unlink, const char *);
    return judge(UNLINK, below(path)) == FAIL ? -1 : real(path);
}

int unlinkat(int folder, const char *path, int flags) {
    REAL(int, unlinkat, int, const char *, int);
    char buffer[PATH_MAX];
    enum kind kind = flags & AT_REMOVEDIR ? RMDIR : UNLINK;
    return judge(kind, path_at(folder, path, buffer)) == FAIL ? -1 : real(folder, path, flags);
}

int mkdir(const char *path, mode_t mode) {
    REAL(int, mkdir, const char *, mode_t);
    return judge(MKDIR, below(path)) == FAIL ? -1 : real(path, mode);
}

int mkdirat(int folder, const char *path, mode_t mode) {
    REAL(int, mkdirat, int, const char *, mode_t);
    char buffer[PATH_MAX];
    return judge(MKDIR, path_at(folder, path, buffer)) == FAIL ? -1 : real(folder, path, mode);
}

int rmdir(const char *path) {
    REAL(int, rmdir, const char *);
    return judge(RMDIR, below(path)) == FAIL ? -1 : real(path);
}

int setxattr(const char *path, const char *name, const void *value, size_t size, int flags) {
    REAL(int, setxattr, const char *, const char *, const void *, size_t, int);
    return judge(SETXATTR, below(path)) == FAIL ? -1 : real(path, name, value, size, flags);
}

int fsetxattr(int file, const char *name, const void *value, size_t size, int flags) {
    REAL(int, fsetxattr, int, const char *, const void *, size_t, int);
    ON_FILE(SETXATTR, file);
other:
    return real(file, name, value, size, flags);
}

int fremovexattr(int file, const char *name) {
    REAL(int, fremovexattr, int, const char *);
    ON_FILE(SETXATTR, file);
other:
    return real(file, name);
}

ssize_t getxattr(const char *path, const char *name, void *value, size_t size) {
    REAL(ssize_t, getxattr, const char *, const char *, void *, size_t);
    return judge(GETXATTR, below(path)) == FAIL ? -1 : real(path, name, value, size);
}

ssize_t fgetxattr(int file, const char *name, void *value, size_t size) {
    REAL(ssize_t, fgetxattr, int, const char *, void *, size_t);
    ON_FILE(GETXATTR, file);
other:
    return real(file, name, value, size);
}
