internal import Bytes
internal import Digests
internal import UploadModel

/// Hashes bytes while they are stored: on another thread, one piece behind.
///
/// The MD5 of a large content is computed in parallel with those of others that arrive at the same time.
final class DigestedSource: ByteSource {
    private let source: any ByteSource
    private let digests: ObjectDigests
    private var running: Task<Void, Never>?
    private let lanes: MD5Lanes
    /// `nil` for a small content, and after its end.
    private var message: MD5Lanes.Message?

    init(_ source: any ByteSource, _ digests: ObjectDigests, lanes: MD5Lanes = .shared) {
        self.source = source
        self.digests = digests
        self.lanes = lanes
        message = source.remaining ?? .max > Self.smallContent ? MD5Lanes.Message() : nil
    }

    deinit {
        if let message { lanes.drop(message) }
    }

    var remaining: Int64? { source.remaining }
    var interrupter: SourceInterrupter { source.interrupter }

    func arrives(_ count: Int) async -> Bool { await source.arrives(count) }

    func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? {
        let piece = try await source.next(maximum: maximum)
        // One at a time, in order.
        await running?.value
        running = nil
        guard let piece else {
            if let message {
                self.message = nil
                digests.setMD5(await lanes.finish(message))
            }
            return nil
        }
        if let message { await lanes.add(piece, to: message) }
        let needsMD5 = message == nil
        if piece.count <= Self.smallPiece {
            digests.update(piece, needsMD5: needsMD5)
        } else {
            running = Task.detached { [digests] in digests.update(piece, needsMD5: needsMD5) }
        }
        return piece
    }

    /// Bytes of a content that is over before others come.
    private static let smallContent: Int64 = 256 << 10

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
