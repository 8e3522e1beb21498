/// The destination of a streamed response.
package protocol ByteSink: AnyObject {
    /// Writes all of `bytes`; returns when the next piece can be produced (back-pressure).
    func write(_ bytes: [UInt8]) async throws(SinkFailure)

    /// Calls `action` once, when the peer disconnects or the process begins to stop; at once if that has already
    /// happened.
    ///
    /// For content without an end of its own: a producer that waits for events would not notice a disconnect by
    /// writing.
    func whenGone(_ action: @escaping @Sendable () -> Void)
}

/// Why nothing more can be written.
package enum SinkFailure: Error, Equatable, Sendable {
    /// The peer disconnected.
    case disconnected
    /// The peer accepted no byte for too long.
    case timedOut
    /// The process is about to stop.
    case shuttingDown
    /// More or fewer bytes were written than announced.
    case lengthMismatch
}
