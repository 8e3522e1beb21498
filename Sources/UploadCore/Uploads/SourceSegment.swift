internal import Bytes
internal import Foundation
internal import SystemIO
internal import UploadModel

/// The next few seconds of a source, as a source that ends after them.
///
/// It belongs to the task that pulls the source; bytes that it leaves belong to the next segment.
final class SourceSegment: ByteSource {
    private let source: any ByteSource
    private let end: ContinuousClock.Instant
    /// Whether the source itself has ended, successfully or not.
    private(set) var hasSourceEnded = false

    /// - Parameters:
    ///   - source: A source that has not ended.
    ///   - seconds: Length of the segment from now.
    ///   - isFast: Whether it was fast recently; a slow source is pulled piece by piece, so that the segment can end
    ///     between them.
    init(of source: any ByteSource, seconds: Double, isFast: Bool) {
        self.source = source
        end = .now + .seconds(seconds)
        supportsTransfer = isFast && source.supportsTransfer
    }

    var remaining: Int64? { source.remaining }
    var interrupter: SourceInterrupter { source.interrupter }
    let supportsTransfer: Bool

    private var isOver: Bool { ContinuousClock.now >= end }

    func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? {
        if isOver { return nil }
        do throws(SourceFailure) {
            let piece = try await source.next(maximum: maximum)
            if piece == nil { hasSourceEnded = true }
            return piece
        } catch {
            hasSourceEnded = true
            throw error
        }
    }

    func transfer(to file: OpenFile, at offset: Int64, limit: Int64, on pool: BlockingPool) async -> TransferOutcome {
        var moved: Int64 = 0
        var slice = Self.firstSlice
        while true {
            let outcome = await source.transfer(
                to: file,
                at: offset + moved,
                limit: min(slice, limit - moved),
                on: pool
            )
            moved += outcome.moved
            guard outcome.end == .limitReached else {
                hasSourceEnded = true
                return TransferOutcome(moved: moved, end: outcome.end)
            }
            if moved == limit { return TransferOutcome(moved: moved, end: .limitReached) }
            if isOver { return TransferOutcome(moved: moved, end: .endOfSource) }
            slice = min(slice * 2, Self.largestSlice)
        }
    }

    /// Small, so that a source that has become slow does not exceed the segment's time by much.
    private static let firstSlice: Int64 = 1 << 20
    private static let largestSlice: Int64 = 8 << 20
}
