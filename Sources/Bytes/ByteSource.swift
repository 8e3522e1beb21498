/// Bytes that are pulled by whoever wants them: a request body, a file, an array.
///
/// A source does no work ahead of demand, so the speed of the consumer is the speed of the producer (back-pressure).
/// A source belongs to the task that pulls it; only its `interrupter` may be used from elsewhere.
package protocol ByteSource: AnyObject {
    /// How many bytes are still to come, when that is known before they have come.
    var remaining: Int64? { get }

    /// Ends the source from outside: see `SourceInterrupter`.
    var interrupter: SourceInterrupter { get }

    /// Whether the source has `transfer`, which moves bytes in a better way than piece by piece.
    ///
    /// Constant for the life of the source.
    var supportsTransfer: Bool { get }

    /// The next bytes, as soon as there are any, or `nil` at the end.
    ///
    /// - Parameter maximum: The most bytes to return; at least 1.
    /// - Returns: Between 1 and `maximum` bytes, or `nil` when the source has ended well.
    /// - Throws: What ended the source before its last byte; again at every later call.
    func next(maximum: Int) async throws(SourceFailure) -> [UInt8]?

    /// Moves bytes into a file, within the kernel if that can be; only where `supportsTransfer`.
    ///
    /// Everything that arrived is in the file when this returns, whatever ended it.
    ///
    /// - Parameters:
    ///   - descriptor: A regular file, open for writing, not in append mode.
    ///   - offset: Where in the file the first byte goes, in bytes.
    ///   - limit: The most bytes to move.
    /// - Returns: How many bytes were moved, and why it ended.
    func transfer(to descriptor: Int32, at offset: Int64, limit: Int64) async -> TransferOutcome
}

extension ByteSource {
    package var supportsTransfer: Bool { false }

    package func transfer(to descriptor: Int32, at offset: Int64, limit: Int64) async -> TransferOutcome {
        preconditionFailure("transfer(to:at:limit:) of a source that does not support it")
    }
}

/// Why a source ended before its last byte.
package enum SourceFailure: Error, Equatable, Sendable {
    /// The other side went away.
    case disconnected
    /// Somebody called `SourceInterrupter.interrupt`, as a newer request for the same upload does.
    case interrupted
    /// No byte came for too long, or the whole took too long.
    case timedOut
    /// The process is about to stop.
    case shuttingDown
    /// The framing is wrong; the text says how.
    case malformed(String)
    /// More bytes than this were sent.
    case tooLarge(limit: Int64)
}

/// What `ByteSource.transfer` did.
package struct TransferOutcome: Equatable, Sendable {
    package enum End: Equatable, Sendable {
        /// The source has no more bytes.
        case endOfSource
        /// `limit` bytes were moved; the source may have more.
        case limitReached
        case sourceFailed(SourceFailure)
        /// Writing failed with this `errno`.
        case fileFailed(errno: Int32)
    }

    /// Bytes that are in the file now.
    package var moved: Int64
    package var end: End

    package init(moved: Int64, end: End) {
        self.moved = moved
        self.end = end
    }
}

/// The handle by which anybody, from any thread, can end a source that somebody else pulls.
///
/// A pull that waits returns at once with `.interrupted`, as does every later one. What was pulled before stays valid.
package struct SourceInterrupter: Sendable {
    private let action: @Sendable (SourceFailure) -> Void

    package init(_ action: @escaping @Sendable (SourceFailure) -> Void) {
        self.action = action
    }

    /// Ends the source; the pulling task sees `failure`.
    package func interrupt(as failure: SourceFailure = .interrupted) {
        action(failure)
    }
}

/// A source of bytes that are already in memory.
package final class ArraySource: ByteSource {
    private var bytes: ArraySlice<UInt8>

    package init(_ bytes: [UInt8]) {
        self.bytes = bytes[...]
    }

    package var remaining: Int64? { Int64(bytes.count) }

    package var interrupter: SourceInterrupter { SourceInterrupter { _ in } }

    package func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? {
        guard !bytes.isEmpty else { return nil }
        defer { bytes = bytes.dropFirst(maximum) }
        return Array(bytes.prefix(maximum))
    }
}

extension ByteSource {
    /// Pulls everything into one array.
    ///
    /// - Throws: `.tooLarge(limit:)` as soon as more than `limit` bytes have come; whatever `next` throws.
    package func collect(limit: Int) async throws(SourceFailure) -> [UInt8] {
        if let remaining, remaining > Int64(limit) { throw .tooLarge(limit: Int64(limit)) }
        var all: [UInt8] = []
        while let piece = try await next(maximum: 65536) {
            if all.count + piece.count > limit { throw .tooLarge(limit: Int64(limit)) }
            if all.isEmpty { all = piece } else { all.append(contentsOf: piece) }
        }
        return all
    }
}
