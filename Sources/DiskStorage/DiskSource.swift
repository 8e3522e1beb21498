internal import Bytes
internal import SystemIO

#if canImport(Glibc)
internal import Glibc
internal import UploadModel
#endif

/// Bytes of a file, read on the pool.
final class DiskSource: ByteSource {
    private let file: OpenFile
    private let pool: BlockingPool
    private var position: Int64
    private let end: Int64

    init(_ file: OpenFile, _ range: Range<Int64>, pool: BlockingPool) {
        self.file = file
        self.pool = pool
        position = range.lowerBound
        end = range.upperBound
    }

    var remaining: Int64? { end - position }

    /// Disk reads never wait for a client, so there is nothing to interrupt.
    var interrupter: SourceInterrupter { SourceInterrupter { _ in } }

    func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? {
        guard position < end else { return nil }
        let count = Int(min(Int64(maximum), end - position))
        let failure: SystemError
        do throws(SystemError) {
            let piece = try await pool.run { [file, position] (io: BlockingIO) throws(SystemError) -> [UInt8] in
                let bytes = try io.read(file, at: position, maximum: count)
                guard !bytes.isEmpty else { throw SystemError("pread", errno: EIO) }
                return bytes
            }
            position += Int64(piece.count)
            return piece
        } catch {
            failure = error
        }
        throw .malformed("the disk failed: \(failure)")
    }
}
