internal import CoreMetrics
internal import Foundation
package import MetricsKit

/// What is known of the process when the metrics are read.
package enum ProcessMetrics {
    /// - Parameters:
    ///   - metrics: Takes the samples.
    ///   - lostLogLines: Returns how many log lines were lost.
    package static func declare(in metrics: MetricsRegistry, lostLogLines: @escaping @Sendable () -> UInt64) {
        metrics.gauge("process_start_time_seconds", "Start, in Unix seconds.").set(Date().timeIntervalSince1970)
        metrics.gauge("sluice_build_info", "Version of the gateway.", ["version": Version.current]).set(1)
        metrics.sample("process_cpu_seconds_total", .counter, "User and system CPU time.") {
            ProcessUsage.cpuSeconds
        }
        metrics.sample("process_resident_memory_bytes", .gauge, "Resident memory.") {
            Double(ProcessUsage.residentBytes)
        }
        metrics.sample("process_open_fds", .gauge, "Open descriptors.") { Double(ProcessUsage.openDescriptors) }
        metrics.sample(
            "sluice_log_lines_lost_total",
            .counter,
            "Log lines that were lost because nobody took them."
        ) { Double(lostLogLines()) }
    }

    /// - Parameters:
    ///   - path: A directory; the space of its file system is reported.
    ///   - metrics: Takes the samples.
    package static func declareSpace(of path: String, in metrics: MetricsRegistry) {
        metrics.sample("sluice_disk_free_bytes", .gauge, "Space in the data directory that the gateway can use.") {
            Double(ProcessUsage.space(of: path).free)
        }
        metrics.sample("sluice_disk_size_bytes", .gauge, "Size of the data directory's file system.") {
            Double(ProcessUsage.space(of: path).size)
        }
    }
}
