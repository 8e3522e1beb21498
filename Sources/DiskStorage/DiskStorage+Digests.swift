package import Digests
internal import SystemIO

#if canImport(Glibc)
internal import Glibc
package import UploadModel
#endif

extension DiskStorage {
    /// Always empty: no digests are computed while bytes are written.
    package func recordedDigests(of id: UploadID) async throws(UploadError) -> DigestValues { [:] }

    /// Bytes to hash per job on the pool: some hundredths of a second, which other jobs can wait.
    private static let hashedAtOnce: Int64 = 64 << 20
    private static let readSize: Int64 = 256 * 1024

    package func digests(
        of id: UploadID,
        by algorithms: Set<DigestAlgorithm>
    ) async throws(UploadError) -> DigestValues {
        let (file, size) = try await onBlob { storage, io throws(SystemError) in
            let file = try io.open(storage.directory.blobPath(id), O_RDONLY)
            return (file, try io.size(of: file))
        }
        let running = algorithms.map { RunningDigest($0) }
        var position: Int64 = 0
        while position < size {
            let range = position..<min(position + Self.hashedAtOnce, size)
            try await onPool { _, io throws(SystemError) in try Self.update(running, with: range, of: file, io) }
            position = range.upperBound
        }
        return Dictionary(uniqueKeysWithValues: running.map { ($0.algorithm, $0.finish()) })
    }

    /// Updates digests with bytes of a file; runs on the pool.
    ///
    /// - Throws: Also if the file is too short.
    static func update(
        _ digests: [RunningDigest],
        with range: Range<Int64>,
        of file: OpenFile,
        _ io: BlockingIO
    ) throws(SystemError) {
        var position = range.lowerBound
        while position < range.upperBound {
            let piece = try io.read(file, at: position, maximum: Int(min(readSize, range.upperBound - position)))
            guard !piece.isEmpty else { throw SystemError("pread", errno: EIO) }
            for digest in digests { digest.update(piece) }
            position += Int64(piece.count)
        }
    }
}
