internal import CoreMetrics
internal import GatewayKit
internal import Logging
internal import MetricsKit
internal import ServiceLifecycle
internal import SettingsKit
internal import UploadCore
internal import UploadModel

/// Runs the sweep, which removes expired data.
struct SweepModule: GatewayModule {
    let name = "sweep"
    let services: [any Service]

    init(_ context: GatewayContext) {
        services = [
            SweepingService(
                service: context.services.sweep,
                binding: context.mismatch == nil ? context.binding : nil,
                interval: context.settings.uploads.sweepEvery,
                logger: context.logger,
                ended: context.metrics.counter("sluice_sweeps_total", "Sweeps that ended.")
            )
        ]
    }
}

/// Runs the sweep repeatedly.
private struct SweepingService: Service {
    let service: SweepService
    /// `nil` if state and storage do not belong together.
    let binding: StoreBinding?
    let interval: Duration
    let logger: Logger
    let ended: Counter

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                var report = SweepReport()
                do throws(UploadError) {
                    // In another storage the records do not show what may be removed.
                    if try await binding?.compare() == nil { report = await service.run() }
                    try await binding?.advance()
                } catch {
                    logger.warning("the mark of the storage was not renewed", metadata: ["error": "\(error.message)"])
                }
                if report.expired + report.completed + report.orphansRemoved + report.failures > 0 {
                    logger.info(
                        "swept",
                        metadata: [
                            "expired": "\(report.expired)", "completed": "\(report.completed)",
                            "orphans": "\(report.orphansRemoved)", "failures": "\(report.failures)",
                        ]
                    )
                }
                ended.increment()
                try? await Task.sleep(for: interval)
            }
        }
        // If one service returned early, the group would stop all the others.
        try? await gracefulShutdown()
    }
}
