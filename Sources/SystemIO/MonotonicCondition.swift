internal import Glibc

/// A lock with a condition, whose waits end by the monotonic clock.
///
/// Foundation's `NSCondition` waits until a time of day: if the clock is set back by an hour, it waits an hour longer.
///
/// Invariant for the pointers and for `@unchecked`: `init` initialises what they point to, and only pthreads uses it until `deinit` frees it.
/// No thread waits at that time, because a waiting thread holds a reference to this object.
package final class MonotonicCondition: @unchecked Sendable {
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)

    package init() {
        pthread_mutex_init(mutex, nil)
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        pthread_cond_init(condition, &attributes)
        pthread_condattr_destroy(&attributes)
    }

    deinit {
        pthread_cond_destroy(condition)
        pthread_mutex_destroy(mutex)
        condition.deallocate()
        mutex.deallocate()
    }

    package func locked<Result>(_ body: () -> Result) -> Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return body()
    }

    /// Wakes all that wait.
    package func broadcast() { pthread_cond_broadcast(condition) }

    /// Waits for `broadcast`, or for no reason; only within `locked`, like `wait(until:)`.
    package func wait() { pthread_cond_wait(condition, mutex) }

    /// - Parameter end: By `MonotonicClock`.
    /// - Returns: Whether it was woken before `end`.
    package func wait(until end: Nanoseconds) -> Bool {
        var time = timespec(tv_sec: Int(clamping: end / 1_000_000_000), tv_nsec: Int(end % 1_000_000_000))
        return pthread_cond_timedwait(condition, mutex, &time) == 0
    }
}
