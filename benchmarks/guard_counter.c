// Counts heap allocations, SQL statements and syncs of a process that is started with this as LD_PRELOAD.
//
// The counts are in the file that GUARD_COUNTS names, which the process and guard.py map: reading them costs the process nothing.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// In the order of COUNTERS in guard.py.
struct counts {
    _Atomic uint64_t allocations, sqlite_allocations, statements, syncs;
};

// What happens before the file is mapped is the start of the process, and counts for nothing.
static struct counts early;
static struct counts *counts = &early;

// The code of libsqlite3. How often it allocates depends on what its caches hold and how its trees are balanced, and not on the
// request: those allocations have a counter of their own.
static uintptr_t sqlite_start, sqlite_end;

#define COUNT(field) atomic_fetch_add_explicit(&counts->field, 1, memory_order_relaxed)

#define COUNT_ALLOCATION() \
    do { \
        uintptr_t caller = (uintptr_t)__builtin_return_address(0); \
        if (caller >= sqlite_start && caller < sqlite_end) COUNT(sqlite_allocations); \
        else COUNT(allocations); \
    } while (0)

static int look_for_sqlite(struct dl_phdr_info *object, size_t size, void *unused) {
    (void)size, (void)unused;
    if (!strstr(object->dlpi_name, "libsqlite3")) return 0;
    for (int index = 0; index < object->dlpi_phnum; index++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[index];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
        sqlite_start = object->dlpi_addr + part->p_vaddr;
        sqlite_end = sqlite_start + part->p_memsz;
    }
    return 1;
}

__attribute__((constructor)) static void prepare(void) {
    dl_iterate_phdr(look_for_sqlite, NULL);
    const char *path = getenv("GUARD_COUNTS");
    if (!path) return;
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return;
    void *mapped = mmap(0, sizeof(struct counts), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED) counts = mapped;
}

// MARK: Heap. By glibc's own names, because dlsym itself allocates.

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

void *malloc(size_t size) {
    COUNT_ALLOCATION();
    return __libc_malloc(size);
}

void *calloc(size_t number, size_t size) {
    COUNT_ALLOCATION();
    return __libc_calloc(number, size);
}

void *realloc(void *old, size_t size) {
    COUNT_ALLOCATION();
    return __libc_realloc(old, size);
}

void *memalign(size_t alignment, size_t size) {
    COUNT_ALLOCATION();
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    COUNT_ALLOCATION();
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **result, size_t alignment, size_t size) {
    COUNT_ALLOCATION();
    if (alignment % sizeof(void *) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0) return EINVAL;
    void *found = __libc_memalign(alignment, size);
    if (!found) return ENOMEM;
    *result = found;
    return 0;
}

// MARK: SQLite

#define REAL(type, name, ...) \
    static type (*_Atomic real)(__VA_ARGS__); \
    if (!real) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

// A step of a statement that is not running is the start of a run; the others ask for further rows.
int sqlite3_step(void *statement) {
    REAL(int, sqlite3_step, void *);
    static int (*_Atomic is_running)(void *);
    if (!is_running) is_running = (int (*)(void *))dlsym(RTLD_DEFAULT, "sqlite3_stmt_busy");
    if (!is_running(statement)) COUNT(statements);
    return real(statement);
}

// MARK: Syncs

int fsync(int file) {
    REAL(int, fsync, int);
    COUNT(syncs);
    return real(file);
}

int fdatasync(int file) {
    REAL(int, fdatasync, int);
    COUNT(syncs);
    return real(file);
}

int sync_file_range(int file, off64_t start, off64_t count, unsigned int flags) {
    REAL(int, sync_file_range, int, off64_t, off64_t, unsigned int);
    COUNT(syncs);
    return real(file, start, count, flags);
}
