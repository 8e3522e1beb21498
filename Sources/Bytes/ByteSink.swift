/// Where an answer that is made piece by piece is written.
package protocol ByteSink: AnyObject {
    /// Writes all of `bytes`; returns when the next piece may be made (back-pressure).
    func write(_ bytes: [UInt8]) async throws(SinkFailure)

    /// Calls `action` once, when the other side goes away or the process begins to stop; at once if that was before.
    ///
    /// For content without an end of its own, which waits for something to tell and would not notice by writing.
    func whenGone(_ action: @escaping @Sendable () -> Void)
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
