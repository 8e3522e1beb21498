package import S3Storage
package import Telemetry

extension S3Usage {
    /// Resource usage of the store, as metrics.
    package func write(to page: inout MetricsPage) {
        page.family("sluice_store_requests_total", "Requests to the object store.", "outcome", attempts)
        page.single(
            "sluice_store_memory_bytes",
            "gauge",
            "Bytes in memory that the object store has not confirmed.",
            Double(memory)
        )
        page.single("sluice_store_memory_limit_bytes", "gauge", "Most such bytes.", Double(memoryLimit))
        page.single(
            "sluice_store_spool_files_total",
            "counter",
            "Files for bytes that had no room in memory.",
            Double(spoolFiles)
        )
    }
}
