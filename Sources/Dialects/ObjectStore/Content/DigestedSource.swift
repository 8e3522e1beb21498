internal import Bytes
internal import UploadCore

/// Hashes bytes while they are stored: on another thread, one piece behind.
final class DigestedSource: ByteSource {
    private let source: any ByteSource
    private let digests: ObjectDigests
    private var running: Task<Void, Never>?

    init(_ source: any ByteSource, _ digests: ObjectDigests) {
        self.source = source
        self.digests = digests
    }

    var remaining: Int64? { source.remaining }
    var interrupter: SourceInterrupter { source.interrupter }

    func arrives(_ count: Int) async -> Bool { await source.arrives(count) }

    func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? {
        let piece = try await source.next(maximum: maximum)
        // One at a time, in order.
        await running?.value
        running = nil
        guard let piece else { return nil }
        if piece.count <= Self.smallPiece {
            digests.update(piece)
        } else {
            running = Task.detached { [digests] in digests.update(piece) }
        }
        return piece
    }

    /// Bytes of a piece whose hash takes no longer than a change of threads.
    private static let smallPiece = 8192

    /// Waits until all bytes are hashed, and checks that the source has ended.
    ///
    /// - Parameter error: Converts a failure of the source to the vendor's error.
    /// - Throws: If there are more bytes, or the end of the source is invalid.
    func finish(_ error: (SourceFailure) -> ObjectError) async throws(UploadError) {
        do throws(SourceFailure) {
            guard try await next(maximum: 1) == nil else {
                throw .malformed("there are more bytes than were announced")
            }
        } catch let failure {
            await running?.value
            throw UploadError(UploadError(failure).code, UploadError(failure).message, cause: error(failure))
        }
    }
}
