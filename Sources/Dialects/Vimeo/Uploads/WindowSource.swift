internal import Bytes
internal import SystemIO

/// Part of a source: without its first bytes, and with a limited number of others.
///
/// Clients that resume announce the length of the whole file but send only the rest of it. Waiting for what they
/// announce would last for ever, so the source ends at the limit.
final class WindowSource: ByteSource {
    private let source: any ByteSource
    private var skipped: Int64
    private var left: Int64
    /// Whether nothing was read of the source.
    private(set) var isUntouched = true

    /// - Parameters:
    ///   - source: Belongs to this one from now on.
    ///   - skipped: Number of first bytes that are left out.
    ///   - limit: The most bytes after them.
    init(_ source: any ByteSource, skipping skipped: Int64, limit: Int64) {
        self.source = source
        self.skipped = skipped
        left = limit
    }

    var remaining: Int64? { source.remaining.map { max(0, min($0 - skipped, left)) } }
    var interrupter: SourceInterrupter { source.interrupter }
    var supportsTransfer: Bool { source.supportsTransfer }

    func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? {
        try await skip()
        guard left > 0, let piece = try await source.next(maximum: Int(clamping: min(Int64(maximum), left))) else {
            return nil
        }
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
        var outcome = await source.transfer(to: file, at: offset, limit: min(limit, left), on: pool)
        left -= outcome.moved
        if outcome.end == .limitReached, left == 0 { outcome.end = .endOfSource }
        return outcome
    }

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
