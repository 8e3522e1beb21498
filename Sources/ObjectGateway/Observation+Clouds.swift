internal import Clouds
internal import Logging
internal import Telemetry

extension Observation {
    /// Reports a request to a cloud in `direct` mode; the reported failure contains no secrets.
    func cloudCalled(_ cloud: String, _ failure: CloudFailure?) {
        metrics.called(cloud: cloud, outcome: failure?.kind.rawValue ?? "answered")
        guard let failure else { return }
        var metadata: Logger.Metadata = [
            "cloud": "\(cloud)", "outcome": "\(failure.kind.rawValue)", "error": "\(failure.message)",
        ]
        if let cause = failure.cause { metadata["cause"] = "\(cause)" }
        logger.warning("cloud failed", metadata: metadata)
    }
}
