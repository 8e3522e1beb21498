#define _GNU_SOURCE
#include "CThreadSanitizer.h"

#if __has_feature(thread_sanitizer)

#include <dlfcn.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

extern void __tsan_acquire(void *address);
extern void __tsan_release(void *address);
extern void *swift_task_getCurrent(void);

// This code must not add an order between threads of its own: that would hide races.
#pragma clang attribute push(__attribute__((disable_sanitizer_instrumentation)), apply_to = function)

/// The library function that the function of the same name in this file replaces.
static void *next(void *_Atomic *cache, const char *name) {
    void *found = atomic_load_explicit(cache, memory_order_acquire);
    if (found == NULL) {
        found = dlsym(RTLD_NEXT, name);
        if (found == NULL) abort();
        atomic_store_explicit(cache, found, memory_order_release);
    }
    return found;
}

// MARK: Mutex
//
// An uncontended `Mutex` is an atomic exchange that is inlined into its user, where the sanitizer sees it. If it is contended, the
// kernel hands the lock over inside libswiftSynchronization. `mutex` is the address of the same atomic.

#define LOCK_SLOW "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define TRY_LOCK_SLOW "$s15Synchronization12_MutexHandleV12_tryLockSlowSbyF"
#define UNLOCK_SLOW "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"
#define SWIFT_METHOD __attribute__((swiftcall))
#define SWIFT_SELF __attribute__((swift_context))

typedef SWIFT_METHOD void lock_function(uint32_t thread, SWIFT_SELF void *mutex);
typedef SWIFT_METHOD bool try_lock_function(SWIFT_SELF void *mutex);
typedef SWIFT_METHOD void unlock_function(SWIFT_SELF void *mutex);

lock_function csan_lock_slow __asm__(LOCK_SLOW);
try_lock_function csan_try_lock_slow __asm__(TRY_LOCK_SLOW);
unlock_function csan_unlock_slow __asm__(UNLOCK_SLOW);

SWIFT_METHOD void csan_lock_slow(uint32_t thread, SWIFT_SELF void *mutex) {
    static void *_Atomic cache;
    ((lock_function *)next(&cache, LOCK_SLOW))(thread, mutex);
    __tsan_acquire(mutex);
}

SWIFT_METHOD bool csan_try_lock_slow(SWIFT_SELF void *mutex) {
    static void *_Atomic cache;
    bool isLocked = ((try_lock_function *)next(&cache, TRY_LOCK_SLOW))(mutex);
    if (isLocked) __tsan_acquire(mutex);
    return isLocked;
}

SWIFT_METHOD void csan_unlock_slow(SWIFT_SELF void *mutex) {
    static void *_Atomic cache;
    __tsan_release(mutex);
    ((unlock_function *)next(&cache, UNLOCK_SLOW))(mutex);
}

// MARK: Continuations
//
// `swift_continuation_resume` tells the sanitizer that it releases the task, and taking a task out of a queue tells it that the
// task is acquired. But a task that is resumed before it waits continues at once in `swift_continuation_await`, which tells
// the sanitizer nothing. Here such tasks continue through `resumed`, which does.

#define SWIFT_ASYNC __attribute__((swiftasynccall))

struct continuation;
typedef SWIFT_ASYNC void resume_function(__attribute__((swift_async_context)) struct continuation *continuation);

/// The beginning of the runtime's ContinuationAsyncContext.
struct continuation {
    void *parent;
    resume_function *resume;
};

/// Where a waiting continuation continues.
struct waiting {
    struct waiting *next;
    struct continuation *continuation;
    resume_function *resume;
};

/// Invariant: `first` is accessed only by the thread that has set `isLocked`.
static struct {
    atomic_flag isLocked;
    struct waiting *first;
} waiting[1024];

static size_t lock_bucket(struct continuation *continuation) {
    size_t bucket = ((uintptr_t)continuation >> 4) % (sizeof waiting / sizeof waiting[0]);
    while (atomic_flag_test_and_set_explicit(&waiting[bucket].isLocked, memory_order_acquire)) sched_yield();
    return bucket;
}

static void unlock_bucket(size_t bucket) {
    atomic_flag_clear_explicit(&waiting[bucket].isLocked, memory_order_release);
}

static resume_function *take(struct continuation *continuation) {
    size_t bucket = lock_bucket(continuation);
    struct waiting **link = &waiting[bucket].first;
    while (*link != NULL && (*link)->continuation != continuation) link = &(*link)->next;
    struct waiting *found = *link;
    if (found == NULL) abort();
    *link = found->next;
    unlock_bucket(bucket);
    resume_function *resume = found->resume;
    free(found);
    return resume;
}

static SWIFT_ASYNC void resumed(__attribute__((swift_async_context)) struct continuation *continuation) {
    resume_function *resume = take(continuation);
    __tsan_acquire(swift_task_getCurrent());
    __attribute__((musttail)) return resume(continuation);
}

typedef SWIFT_ASYNC void await_function(struct continuation *continuation);

SWIFT_ASYNC void swift_continuation_await(struct continuation *continuation) {
    static void *_Atomic cache;
    await_function *await = next(&cache, "swift_continuation_await");
    struct waiting *entry = malloc(sizeof *entry);
    if (entry == NULL) abort();
    entry->continuation = continuation;
    entry->resume = continuation->resume;
    continuation->resume = resumed;
    size_t bucket = lock_bucket(continuation);
    entry->next = waiting[bucket].first;
    waiting[bucket].first = entry;
    unlock_bucket(bucket);
    __attribute__((musttail)) return await(continuation);
}

#pragma clang attribute pop

#endif
