internal import Bytes
internal import UploadCore

/// A source whose bytes are hashed while they are stored: on another thread, one piece behind.
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

    func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? {
        let piece = try await source.next(maximum: maximum)
        // One at a time, in their order.
        await running?.value
        guard let piece else {
            running = nil
            return nil
        }
        running = Task.detached { [digests] in digests.update(piece) }
        return piece
    }

    /// Waits until all bytes were hashed, and sees to it that there are no more.
    ///
    /// - Parameter error: Says in the dialect's words what the source failed with.
    /// - Throws: If there are more, or the end of the source is not as it must be.
    func finish(_ error: (SourceFailure) -> S3Error) async throws(UploadError) {
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
