internal import CoreMetrics
package import MetricsKit
package import SystemIO

/// Measures the blocking work of a pool: how many threads are busy, how long jobs wait, and how long disks take.
package struct PoolMetrics: BlockingPoolObserver {
    private let wait: Timer
    private let done: Timer
    private let failed: Timer

    private init(_ name: String, _ metrics: MetricsRegistry) {
        wait = metrics.timer("sluice_pool_wait_seconds", "How long jobs waited for a thread.", ["pool": name])
        func syncs(_ outcome: String) -> Timer {
            metrics.timer(
                "sluice_disk_sync_duration_seconds",
                "Calls that force a file or directory to the disk.",
                ["outcome": outcome]
            )
        }
        done = syncs("ok")
        failed = syncs("failed")
    }

    package func started(after wait: Nanoseconds) { self.wait.recordNanoseconds(Int64(clamping: wait)) }

    package func synchronized(in time: Nanoseconds, isDone: Bool) {
        (isDone ? done : failed).recordNanoseconds(Int64(clamping: time))
    }

    /// Makes a pool that is measured.
    ///
    /// - Parameters:
    ///   - threads: See `BlockingPool`.
    ///   - label: Name of the threads.
    ///   - name: Value of the label `pool`.
    ///   - metrics: Takes the samples, and keeps the pool alive.
    /// - Returns: The pool.
    package static func pool(
        threads: Int,
        label: String,
        as name: String,
        in metrics: MetricsRegistry
    ) -> BlockingPool {
        let pool = BlockingPool(threads: threads, label: label, observer: PoolMetrics(name, metrics))
        let labels: KeyValuePairs = ["pool": name]
        metrics.sample("sluice_pool_threads", .gauge, "Threads for calls that block.", labels) {
            Double(pool.threads)
        }
        metrics.sample("sluice_pool_threads_busy", .gauge, "Such threads that run a job.", labels) {
            Double(pool.busy)
        }
        metrics.sample("sluice_pool_queue_length", .gauge, "Jobs that wait for such a thread.", labels) {
            Double(pool.waiting)
        }
        return pool
    }
}
