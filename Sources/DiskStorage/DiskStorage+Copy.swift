internal import SystemIO

#if canImport(Glibc)
internal import Glibc
package import UploadModel
#endif

extension DiskStorage {
    /// Bytes to copy per job on the pool: with shared blocks this takes microseconds, without them it must not delay
    /// other jobs for long.
    private static let copySize: Int64 = 256 << 20
    private static let bufferSize = 256 * 1024

    package func copy(
        _ range: Range<Int64>,
        of source: UploadID,
        to id: UploadID,
        at offset: Int64
    ) async throws(UploadError) {
        let (input, output, length) = try await onBlob { storage, io throws(SystemError) in
            try storage.checkRoom(io)
            let input = try io.open(storage.directory.blobPath(source), O_RDONLY)
            let output = try io.open(storage.directory.blobPath(id), O_WRONLY)
            return (input, output, try io.size(of: output))
        }
        guard length == offset else {
            throw UploadError(.offsetMismatch(expected: length), "The blob has \(length) bytes.")
        }
        try await copyInPieces(range, of: input, to: output, at: offset)
    }

    func copyInPieces(
        _ range: Range<Int64>,
        of input: OpenFile,
        to output: OpenFile,
        at offset: Int64
    ) async throws(UploadError) {
        var position = range.lowerBound
        while position < range.upperBound {
            let piece = position..<min(position + Self.copySize, range.upperBound)
            let target = offset + (position - range.lowerBound)
            try await onPool { _, io throws(SystemError) in
                try Self.copy(piece, of: input, to: output, at: target, io)
            }
            position = piece.upperBound
        }
    }

    /// Some file systems (Btrfs, XFS and others) share the blocks.
    ///
    /// Others copy within the kernel (copy_file_range(2)), and a few need a copy through memory.
    private static func copy(
        _ range: Range<Int64>,
        of input: OpenFile,
        to output: OpenFile,
        at offset: Int64,
        _ io: BlockingIO
    ) throws(SystemError) {
        var from = range.lowerBound
        var isWithinKernel = true
        while from < range.upperBound {
            let target = offset + (from - range.lowerBound)
            let rest = Int(range.upperBound - from)
            do throws(SystemError) {
                let count =
                    isWithinKernel
                    ? try io.copy(from: input, at: from, to: output, at: target, count: rest)
                    : try copyPiece(at: from, maximum: min(rest, bufferSize), of: input, to: output, at: target, io)
                // The file is shorter than its record says.
                guard count > 0 else { throw SystemError("copy_file_range", errno: EIO) }
                from += Int64(count)
            } catch  where isWithinKernel && isNotOffered.contains(error.errno) {
                isWithinKernel = false
            }
        }
    }

    private static let isNotOffered: Set<Int32> = [EINVAL, ENOSYS, EOPNOTSUPP, EXDEV]

    private static func copyPiece(
        at from: Int64,
        maximum: Int,
        of input: OpenFile,
        to output: OpenFile,
        at target: Int64,
        _ io: BlockingIO
    ) throws(SystemError) -> Int {
        let (count, failure) = io.write(try io.read(input, at: from, maximum: maximum), to: output, at: target)
        if let failure { throw failure }
        return count
    }
}
