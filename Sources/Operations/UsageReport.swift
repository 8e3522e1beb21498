internal import CoreMetrics
internal import Logging
internal import MetricsKit
internal import ServiceLifecycle
internal import UploadCore
internal import UploadModel

/// Reads once a minute what all uploads use together, for the metrics.
///
/// Every upload counts for the key behind it, and there are few keys. Each node reports the same numbers.
struct UsageReport: Service {
    private static let interval = Duration.seconds(60)

    private let state: any AccountRecords
    private let logger: Logger
    private let open: Meter
    private let stored: Meter

    init(_ state: any AccountRecords, _ metrics: MetricsRegistry, _ logger: Logger) {
        self.state = state
        self.logger = logger
        open = metrics.gauge(
            "sluice_open_uploads",
            "Uploads that have begun and not ended, of all nodes, once a minute."
        )
        stored = metrics.gauge(
            "sluice_stored_bytes",
            "Bytes of completed uploads and media, of all nodes, once a minute."
        )
    }

    func run() async throws {
        await cancelWhenGracefulShutdown {
            repeat { await read() } while (try? await Task.sleep(for: Self.interval)) != nil
        }
    }

    private func read() async {
        do throws(UploadError) {
            let totals = try await state.totals(of: .key)
            open.set(totals.openUploads)
            stored.set(totals.storedBytes)
        } catch {
            logger.warning("what the uploads use was not read", metadata: ["error": "\(error.message)"])
        }
    }
}
