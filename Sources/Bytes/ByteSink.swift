/// Where an answer that is made piece by piece is written.
package protocol ByteSink: AnyObject {
    /// Writes all of `bytes`; returns when the next piece may be made (back-pressure).
    func write(_ bytes: [UInt8]) async throws(SinkFailure)
}

/// Why nothing more can be written.
package enum SinkFailure: Error, Equatable, Sendable {
    /// The other side went away.
    case disconnected
    /// The other side took no byte for too long.
    case timedOut
    /// The process is about to stop.
    case shuttingDown
    /// More or fewer bytes than announced.
    case lengthMismatch
}
