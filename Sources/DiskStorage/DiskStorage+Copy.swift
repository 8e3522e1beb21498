internal import Bytes
internal import CSystem
package import UploadCore

#if canImport(Glibc)
internal import Glibc
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
        let (input, output, length) = try await onBlob { storage throws(SystemCallError) in
            let input = try OpenFile.open(storage.directory.blobPath(source), O_RDONLY)
            let output = try OpenFile.open(storage.directory.blobPath(id), O_WRONLY)
            return (input, output, try output.size())
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
            try await onPool { _ throws(SystemCallError) in
                try Self.copy(piece, of: input, to: output, at: target)
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
        at offset: Int64
    ) throws(SystemCallError) {
        var from = range.lowerBound
        var isWithinKernel = true
        while from < range.upperBound {
            let target = offset + (from - range.lowerBound)
            let rest = Int(range.upperBound - from)
            do throws(SystemCallError) {
                let count =
                    isWithinKernel
                    ? try SystemCallError.check("copy_file_range") {
                        csys_copy_range(input.descriptor, from, output.descriptor, target, rest)
                    }
                    : try copyPiece(at: from, maximum: min(rest, bufferSize), of: input, to: output, at: target)
                // The file is shorter than its record says.
                guard count > 0 else { throw SystemCallError("copy_file_range", errno: EIO) }
                from += Int64(count)
            } catch  where isWithinKernel && isNotOffered.contains(error.number) {
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
        at target: Int64
    ) throws(SystemCallError) -> Int64 {
        let (count, failure) = output.write(try input.read(at: from, maximum: maximum), at: target)
        if let failure { throw failure }
        return Int64(count)
    }
}
