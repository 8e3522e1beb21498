internal import Bytes
internal import Foundation

#if canImport(Glibc)
internal import Glibc
#endif

/// The file beside a blob that says: bytes from here on were not verified against their digest yet.
///
/// It is durable before the first such byte is written, and goes only after the bytes are verified and durable, or taken
/// back; so whoever finds it after a crash takes the bytes back.
struct UnverifiedMarker {
    let path: String
    /// Where its name is recorded.
    let directory: String
    /// Whether it must survive more than the end of the process.
    let isDurable: Bool

    /// The blob's length before the unverified bytes; `nil` without a marker.
    ///
    /// A marker without a whole line was cut off by a crash while it was made, before any byte was written.
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

    /// Takes unverified bytes back, if there are any.
    ///
    /// - Parameter blob: Open for writing.
    /// - Returns: Whether there was a marker.
    /// - Throws: When the bytes could not be taken back; the marker is then still there.
    @discardableResult
    func heal(_ blob: OpenFile) throws(SystemCallError) -> Bool {
        guard try text() != nil else { return false }
        if let base = try base(), try blob.size() > base {
            let record = try blob.durableRecord()
            // The old length must not vouch for bytes that take the place of these.
            if let record, record.length > base {
                try blob.setDurableRecord(DurableRecord(length: base, boot: record.boot))
            }
            try blob.truncate(to: base)
            // With a record they count after no power cut, whatever became of the new size.
            if isDurable, record == nil { try blob.synchronizeAll() }
        }
        try remove()
        return true
    }

    private func text() throws(SystemCallError) -> String? {
        try NumberFile.text(at: path)
    }
}
