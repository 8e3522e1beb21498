package import Bytes

extension UploadError {
    /// The error for a request whose body ended early; the bytes received before were saved.
    package init(_ failure: SourceFailure) {
        switch failure {
        case .disconnected:
            self.init(.disconnected, "The connection ended before the body did.", cause: failure)
        case .interrupted:
            self.init(
                .interrupted,
                "A newer request for this upload took over; ask for the offset before sending more.",
                cause: failure
            )
        case .timedOut:
            self.init(
                .timedOut,
                "The body came too slowly; ask for the offset and continue from there.",
                cause: failure
            )
        case .shuttingDown:
            self.init(
                .unavailable,
                "The server is stopping; ask for the offset and continue from there.",
                cause: failure
            )
        case .malformed(let reason):
            self.init(.invalidRequest, "The body is malformed: \(reason)", cause: failure)
        case .tooLarge(let limit):
            self.init(.tooLarge(limit: limit), "The body may have at most \(limit) bytes.", cause: failure)
        }
    }
}
