internal import Clouds
internal import CoreMetrics
internal import Logging
internal import MetricsKit
internal import Signing

/// Counts and logs requests to clouds in `direct` mode.
struct CloudReport: Sendable {
    private let logger: Logger
    private let calls: CounterTable

    init(_ metrics: MetricsRegistry, _ logger: Logger) {
        self.logger = logger
        calls = metrics.counters(
            "sluice_cloud_calls_total",
            "Calls of clouds in direct mode by what became of them.",
            by: "cloud",
            "outcome"
        )
    }

    /// What is wrong if a cloud refuses the account.
    private static let settings = [
        Vendor.aws.cloudName: "aws.accessKeyId, aws.secretAccessKey",
        Vendor.aliyun.cloudName: "aliyun.accessKeyId, aliyun.accessKeySecret",
        Vendor.tencent.cloudName: "tencent.secretId, tencent.secretKey",
    ]

    /// Reports a request; the reported failure contains no secrets.
    func called(_ cloud: String, _ failure: CloudFailure?) {
        calls[cloud, failure?.kind.rawValue ?? "answered"].increment()
        guard let failure else { return }
        var metadata: Logger.Metadata = [
            "cloud": "\(cloud)", "outcome": "\(failure.kind.rawValue)", "error": "\(failure.message)",
        ]
        if let cause = failure.cause { metadata["cause"] = "\(cause)" }
        if failure.isAboutAccount, let settings = Self.settings[cloud] {
            metadata["settings"] = "\(settings), or the clock of the gateway"
        }
        logger.warning("cloud failed", metadata: metadata)
    }
}
