internal import Bytes
internal import CSystem
package import UploadCore

#if canImport(Glibc)
internal import Glibc
#endif

extension DiskStorage {
    /// Bytes that one stay on the pool copies: with shared blocks that takes microseconds, without it must not keep others
    /// waiting for long.
    private static let copySize: Int64 = 256 << 20
    private static let bufferSize = 256 * 1024

    package func copy(
        _ range: Range<Int64>,
        of source: UploadID,
        to id: UploadID,
        at offset: Int64
    ) async throws(UploadError) {
        let (input, output) = try await onBlob { storage throws(SystemCallError) in
            (
                try OpenFile.open(storage.directory.blobPath(source), O_RDONLY),
                try OpenFile.open(storage.directory.blobPath(id), O_WRONLY)
            )
        }
        let length = try await onPool { _ throws(SystemCallError) in try output.size() }
        guard length == offset else {
            throw UploadError(.offsetMismatch(expected: length), "The blob has \(length) bytes.")
        }
        var position = range.lowerBound
        while position < range.upperBound {
            let piece = position..<min(position + Self.copySize, range.upperBound)
            let target = offset + (position - range.lowerBound)
            try await onPool { _ throws(SystemCallError) in
                try Self.copyWithinKernel(piece, of: input, to: output, at: target)
            }
            position = piece.upperBound
        }
    }

    /// File systems that can (Btrfs, XFS and others) share the blocks; others copy within the kernel (copy_file_range(2)).
    private static func copyWithinKernel(
        _ range: Range<Int64>,
        of input: OpenFile,
        to output: OpenFile,
        at offset: Int64
    ) throws(SystemCallError) {
        var from = range.lowerBound
        while from < range.upperBound {
            let target = offset + (from - range.lowerBound)
            let count = csys_copy_range(input.descriptor, from, output.descriptor, target, Int(range.upperBound - from))
            if count > 0 {
                from += Int64(count)
                continue
            }
            let code = count == 0 ? EIO : errno
            switch code {
            case EINTR: continue
            case EINVAL, ENOSYS, EOPNOTSUPP, EXDEV:
                return try copyThroughMemory(from..<range.upperBound, of: input, to: output, at: target)
            default: throw SystemCallError("copy_file_range", errno: code)
            }
        }
    }

    /// For file systems that can not copy by themselves.
    private static func copyThroughMemory(
        _ range: Range<Int64>,
        of input: OpenFile,
        to output: OpenFile,
        at offset: Int64
    ) throws(SystemCallError) {
        var from = range.lowerBound
        while from < range.upperBound {
            let bytes = try input.read(at: from, maximum: Int(min(Int64(bufferSize), range.upperBound - from)))
            // Shorter than its record says.
            guard !bytes.isEmpty else { throw SystemCallError("pread", errno: EIO) }
            let (_, failure) = output.write(bytes, at: offset + (from - range.lowerBound))
            if let failure { throw failure }
            from += Int64(bytes.count)
        }
    }
}
