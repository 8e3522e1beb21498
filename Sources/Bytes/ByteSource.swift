package import SystemIO

/// Bytes that a consumer pulls: a request body, a file, an array.
///
/// A source does no work ahead of demand, so the consumer's speed limits the producer's (back-pressure).
/// A source belongs to the task that pulls it; only its `interrupter` may be used from elsewhere.
package protocol ByteSource: AnyObject {
    /// Number of bytes still to come; `nil` if it is not known in advance.
    var remaining: Int64? { get }

    /// Ends the source from outside: see `SourceInterrupter`.
    var interrupter: SourceInterrupter { get }

    /// Whether the source implements `transfer`, which is faster than pulling pieces.
    ///
    /// Constant for the life of the source.
    var supportsTransfer: Bool { get }

    /// Returns the next bytes as soon as there are any, or `nil` at the end.
    ///
    /// - Parameter maximum: The most bytes to return; at least 1.
    /// - Returns: 1 to `maximum` bytes, or `nil` after the last byte.
    /// - Throws: Why the source ended before its last byte. Every later call throws the same.
    func next(maximum: Int) async throws(SourceFailure) -> [UInt8]?

    /// Waits until the next `count` bytes can be pulled without waiting for the peer, but only for a moment.
    ///
    /// - Parameter count: At most `remaining`.
    /// - Returns: `false` if they have not arrived by then, or the source cannot tell.
    func arrives(_ count: Int) async -> Bool

    /// Moves bytes into a file, within the kernel if possible. Call it only if `supportsTransfer`.
    ///
    /// When it returns, every byte that arrived is in the file, whatever ended the transfer. Blocks of the disk may be set aside
    /// behind them, at most as many as arrived; the caller gives back what is not used in the end.
    ///
    /// - Parameters:
    ///   - file: A regular file, open for writing, not in append mode.
    ///   - offset: Where in the file the first byte goes, in bytes.
    ///   - limit: The most bytes to move.
    ///   - pool: Runs what can block on the file, unless the source has threads of its own for that.
    /// - Returns: How many bytes were moved, and why it ended.
    func transfer(to file: OpenFile, at offset: Int64, limit: Int64, on pool: BlockingPool) async -> TransferOutcome
}

extension ByteSource {
    package var supportsTransfer: Bool { false }

    package func arrives(_ count: Int) async -> Bool { false }

    package func transfer(
        to file: OpenFile,
        at offset: Int64,
        limit: Int64,
        on pool: BlockingPool
    ) async -> TransferOutcome {
        preconditionFailure("transfer(to:at:limit:on:) of a source that does not support it")
    }
}

/// Why a source ended before its last byte.
package enum SourceFailure: Error, Equatable, Sendable {
    /// The peer disconnected.
    case disconnected
    /// `SourceInterrupter.interrupt` was called, for example by a newer request for the same upload.
    case interrupted
    /// No byte arrived for too long, or the whole content took too long.
    case timedOut
    /// The process is about to stop.
    case shuttingDown
    /// The framing is invalid; the text says how.
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

/// A handle that ends a source from any thread, while another task pulls it.
///
/// A waiting pull returns at once with `.interrupted`, and so does every later one. Bytes that were pulled before stay
/// valid.
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

    package func arrives(_ count: Int) async -> Bool { count <= bytes.count }

    package func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? {
        guard !bytes.isEmpty else { return nil }
        defer { bytes = bytes.dropFirst(maximum) }
        return Array(bytes.prefix(maximum))
    }
}

extension ByteSource {
    /// Pulls everything into one array.
    ///
    /// - Throws: `.tooLarge(limit:)` as soon as more than `limit` bytes have arrived, and whatever `next` throws.
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
