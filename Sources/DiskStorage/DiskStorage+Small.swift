internal import Bytes
internal import SystemIO
package import UploadModel

#if canImport(Glibc)
internal import Glibc
#endif

/// A blob's file that an append has left open for the next one.
///
/// All its bytes count, and are as durable as an append leaves them. Whoever changes the blob takes it from the table first.
struct OpenBlob: Sendable {
    let file: OpenFile
    /// Bytes.
    let length: Int64
}

/// Small contents that are appended in one step: one change of threads, one write.
extension DiskStorage: SmallAppendStorage {
    package var smallAppendStorage: (any SmallAppendStorage)? { self }

    package func append(
        _ content: [UInt8],
        to id: UploadID,
        at offset: Int64,
        isLast: Bool
    ) async -> AppendReport {
        await pool.run { [self] io in
            let io = anchored(io)
            let file: OpenFile
            let wasOpen: Bool
            do throws(SystemError) {
                let length: Int64
                (file, length, wasOpen) = try openForAppending(id, at: offset, io)
                guard length == offset else {
                    return AppendReport(stored: 0, end: .failed(Self.mismatch(at: length)))
                }
            } catch {
                return AppendReport(stored: 0, end: .failed(UploadError(opening: error)))
            }
            let (count, failure) = io.write(content, to: file, at: offset)
            if let failure {
                defer { io.close(file) }
                let outcome = TransferOutcome(moved: Int64(count), end: .fileFailed(errno: failure.errno))
                return keep(outcome, of: id, file, base: offset, io)
            }
            let length = offset + Int64(count)
            do throws(SystemError) {
                // One that was open has nothing to remove.
                if !wasOpen { _ = try trim(file, to: length, io) }
                if durability == .acknowledged || durability == .completed && isLast {
                    try synchronize(id, file, length: length, io)
                }
            } catch {
                defer { io.close(file) }
                return distrust(id, file, after: offset, error, io)
            }
            if isLast { io.close(file) } else { openBlobs.put(id, OpenBlob(file: file, length: length)) }
            return AppendReport(stored: Int64(count), end: .endOfSource, isSynchronized: isLast)
        }
    }

    /// Opens a blob to append to it.
    ///
    /// - Returns: The file, its bytes that count, and whether it was open since its last append.
    func openForAppending(
        _ id: UploadID,
        at offset: Int64,
        _ io: BlockingIO
    ) throws(SystemError) -> (file: OpenFile, length: Int64, wasOpen: Bool) {
        if let blob = openBlobs.take(id) {
            // Something else than this process may have removed or changed the file.
            let status = blob.length == offset ? try? io.status(of: blob.file) : nil
            if let status, status.size == offset, status.links > 0 {
                try checkRoom(io)
                return (blob.file, offset, true)
            }
            io.close(blob.file)
        }
        let file = try sparing { () throws(SystemError) in try io.open(directory.blobPath(id), O_WRONLY) }
        let length = try recoverLength(of: id, file, io)
        try checkRoom(io)
        return (file, length, false)
    }

    /// Opens a file, if need be with the descriptor of one that is only kept open.
    func sparing(_ open: () throws(SystemError) -> OpenFile) throws(SystemError) -> OpenFile {
        do throws(SystemError) {
            return try open()
        } catch  where (error.errno == EMFILE || error.errno == ENFILE) && openBlobs.count > 0 {
            openBlobs.removeAll()
            return try open()
        }
    }

    /// Closes a file that was kept open, before its blob is changed in another way.
    func drop(_ id: UploadID, _ io: BlockingIO) {
        if let blob = openBlobs.take(id) { io.close(blob.file) }
    }

    static func mismatch(at length: Int64) -> UploadError {
        UploadError(.offsetMismatch(expected: length), "The blob has \(length) bytes.")
    }
}
