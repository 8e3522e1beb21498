internal import Bytes
internal import Foundation

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
    func base() throws(SystemCallError) -> Int64? {
        try NumberFile.value(at: path)
    }

    func place(base: Int64) throws(SystemCallError) {
        try NumberFile.write(base, at: path, durableIn: isDurable ? directory : nil)
    }

    func remove() throws(SystemCallError) {
        try Paths.remove(path)
        if isDurable { try Paths.synchronizeDirectory(directory) }
    }

    /// Discards unverified bytes, if there are any.
    ///
    /// - Parameter blob: Open for writing.
    /// - Returns: Whether there was a marker.
    /// - Throws: If the bytes could not be discarded; the marker then remains.
    @discardableResult
    func recover(_ blob: OpenFile) throws(SystemCallError) -> Bool {
        guard try text() != nil else { return false }
        if let base = try base(), try blob.size() > base {
            let record = try blob.durableRecord()
            // The old length must not apply to bytes that replace these.
            if let record, record.length > base {
                try blob.setDurableRecord(DurableRecord(length: base, boot: record.boot))
            }
            try blob.truncate(to: base)
            // With a record they never count after a power cut, whatever happened to the new size.
            if isDurable, record == nil { try blob.synchronizeAll() }
        }
        try remove()
        return true
    }

    private func text() throws(SystemCallError) -> String? {
        try NumberFile.text(at: path)
    }
}
