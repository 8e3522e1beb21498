internal import Bytes
internal import SystemIO

/// Part of a source: without its first bytes, and with a limited number of others.
///
/// Clients announce more than they mean to send: those that resume the length of the whole file, others a count as an
/// end. Waiting for what they announce would last for ever, so the source ends at the limit. What is really sent beyond
/// it makes the source fail before its last byte, so that nothing that was cut off counts as a whole file.
final class WindowSource: ByteSource {
    private let source: any ByteSource
    private let limit: Int64?
    private var skipped: Int64
    private var left: Int64
    /// Whether nothing was read of the source.
    private(set) var isUntouched = true
    /// Whether bytes came beyond the limit.
    private(set) var isExceeded = false

    /// - Parameters:
    ///   - source: Belongs to this one from now on.
    ///   - skipped: Number of first bytes that are left out.
    ///   - limit: The most bytes after them; `nil` for all.
    init(_ source: any ByteSource, skipping skipped: Int64 = 0, limit: Int64?) {
        self.source = source
        self.limit = limit
        self.skipped = skipped
        left = limit ?? .max
    }

    var remaining: Int64? { source.remaining.map { max(0, min($0 - skipped, left)) } }
    var interrupter: SourceInterrupter { source.interrupter }
    var supportsTransfer: Bool { source.supportsTransfer }

    func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? {
        try await skip()
        guard left > 0 else { return nil }
        if left == 1, mayExceed { return try await last() }
        let most = mayExceed ? left - 1 : left
        guard let piece = try await source.next(maximum: Int(clamping: min(Int64(maximum), most))) else { return nil }
        left -= Int64(piece.count)
        return piece
    }

    func transfer(to file: OpenFile, at offset: Int64, limit: Int64, on pool: BlockingPool) async -> TransferOutcome {
        do throws(SourceFailure) {
            try await skip()
        } catch {
            return TransferOutcome(moved: 0, end: .sourceFailed(error))
        }
        if left == 0 { return TransferOutcome(moved: 0, end: .endOfSource) }
        var moved: Int64 = 0
        if left > 1 || !mayExceed {
            let most = mayExceed ? left - 1 : left
            var outcome = await source.transfer(to: file, at: offset, limit: min(limit, most), on: pool)
            left -= outcome.moved
            if outcome.end == .limitReached, left == 0 { outcome.end = .endOfSource }
            guard outcome.end == .limitReached, left == 1, outcome.moved < limit, mayExceed else { return outcome }
            moved = outcome.moved
        }
        do throws(SourceFailure) {
            guard let byte = try await last() else { return TransferOutcome(moved: moved, end: .endOfSource) }
            let position = offset + moved
            let (count, failure) = await pool.run { io in io.write(byte, to: file, at: position) }
            moved += Int64(count)
            if let failure { return TransferOutcome(moved: moved, end: .fileFailed(errno: failure.errno)) }
            return TransferOutcome(moved: moved, end: .endOfSource)
        } catch {
            return TransferOutcome(moved: moved, end: .sourceFailed(error))
        }
    }

    /// Checks that nothing comes after the limit, where the window has no bytes of its own.
    ///
    /// - Throws: `.tooLarge`; what the source throws.
    func checkEnd() async throws(SourceFailure) {
        guard left == 0, mayExceed else { return }
        try await skip()
        try await refuseMore()
    }

    /// Whether more may come than the window has.
    private var mayExceed: Bool { limit != nil && source.remaining.map { $0 - skipped > left } ?? true }

    /// The last byte of the window, if none follows it.
    private func last() async throws(SourceFailure) -> [UInt8]? {
        guard let byte = try await source.next(maximum: 1) else { return nil }
        try await refuseMore()
        left = 0
        return byte
    }

    private func refuseMore() async throws(SourceFailure) {
        var isMore = false
        if source.remaining == nil {
            // Such content says where it ends.
            isMore = try await source.next(maximum: 1) != nil
        } else {
            for _ in 0..<Self.looks where !isMore { isMore = await source.arrives(1) }
        }
        guard isMore else { return }
        isExceeded = true
        throw .tooLarge(limit: limit ?? 0)
    }

    /// Each takes a moment: the rest of what a client really sends follows at once.
    private static let looks = 10

    private func skip() async throws(SourceFailure) {
        isUntouched = false
        while skipped > 0 {
            guard let piece = try await source.next(maximum: Int(clamping: min(65536, skipped))) else {
                skipped = 0
                left = 0
                return
            }
            skipped -= Int64(piece.count)
        }
    }
}
