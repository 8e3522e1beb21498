internal import Foundation
internal import SystemIO

#if canImport(Glibc)
internal import Glibc
#endif

/// A file next to a blob: bytes after the recorded length are not verified against their digest yet.
///
/// It is durable before the first such byte is written, and is removed only after the bytes are verified and durable,
/// or discarded. If it exists after a crash, the bytes must be discarded.
struct UnverifiedMarker {
    let path: String
    /// The directory of the file.
    let directory: String
    /// Whether the file must survive more than the end of the process.
    let isDurable: Bool

    /// The length of the blob without the unverified bytes; `nil` without a marker.
    ///
    /// A crash interrupted the creation of a marker without a complete line; nothing was written after it.
    func base(_ io: BlockingIO) throws(SystemError) -> Int64? {
        try NumberFile.value(at: path, io)
    }

    func place(base: Int64, _ io: BlockingIO) throws(SystemError) {
        try NumberFile.write(base, at: path, durableIn: isDurable ? directory : nil, io)
    }

    func remove(_ io: BlockingIO) throws(SystemError) {
        try io.remove(path)
        if isDurable { try io.synchronizeDirectory(directory) }
    }

    /// Discards unverified bytes, if there are any.
    ///
    /// - Parameters:
    ///   - blob: Open for writing.
    ///   - io: Of the pool.
    /// - Returns: Whether there was a marker.
    /// - Throws: If the bytes could not be discarded; the marker then remains.
    @discardableResult
    func recover(_ blob: OpenFile, _ io: BlockingIO) throws(SystemError) -> Bool {
        guard try NumberFile.text(at: path, io) != nil else { return false }
        if let base = try base(io), try io.size(of: blob) > base {
            let record = try io.durableRecord(of: blob)
            // The old length must not apply to bytes that replace these.
            if let record, record.length > base {
                try io.setDurableRecord(DurableRecord(length: base, boot: record.boot), of: blob)
            }
            try io.truncate(blob, to: base)
            // With a record they never count after a power cut, whatever happened to the new size.
            if isDurable, record == nil { try io.synchronizeAll(of: blob) }
        }
        try remove(io)
        return true
    }
}
