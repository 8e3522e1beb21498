internal import CoreMetrics
internal import Foundation
internal import GatewayKit
internal import Logging
internal import MetricsKit
internal import ObjectStore
internal import ServiceLifecycle
internal import UploadCore
internal import UploadModel

extension ObjectModule {
    /// Applies the lifecycle rules of buckets once an hour, on one of all nodes.
    static func lifecycleService(_ context: GatewayContext) -> any Service {
        let removed = context.metrics.counters(
            "sluice_lifecycle_removed_total",
            "Objects and multipart uploads that lifecycle rules of buckets have removed.",
            by: "what"
        )
        let (state, logger) = (context.state, context.logger)
        let sweep = BucketLifecycleSweep(
            objects: context.services.objects,
            parts: context.services.parts,
            uploads: context.services.uploads,
            clock: context.clock
        ) { bucket, error in
            logger.warning(
                "a lifecycle rule was not applied",
                metadata: ["bucket": "\(bucket)", "error": "\(error.message)"]
            )
        }
        let pause = context.settings.uploads.sweepEvery
        return BackgroundLoop {
            while !Task.isCancelled {
                if (try? await state.claimJob(at: .bucketLifecycle, every: 3600)) == true {
                    let report = await FreeingWork.$isRunning.with(true) { await sweep.run() }
                    removed["object"].increment(by: Int64(report.objects))
                    removed["upload"].increment(by: Int64(report.uploads))
                    if report.objects + report.uploads + report.failures > 0 {
                        logger.info(
                            "applied lifecycle rules",
                            metadata: [
                                "objects": "\(report.objects)", "uploads": "\(report.uploads)",
                                "failures": "\(report.failures)",
                            ]
                        )
                    }
                }
                try? await Task.sleep(for: pause)
            }
        }
    }
}
