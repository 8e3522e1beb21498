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
        guard let text = try text(), text.hasSuffix("\n") else { return nil }
        return Int64(text.dropLast())
    }

    func place(base: Int64) throws(SystemCallError) {
        let file = try OpenFile.open(path, O_WRONLY | O_CREAT | O_TRUNC)
        if let failure = file.write(Array("\(base)\n".utf8), at: 0).failure {
            try? remove()
            throw failure
        }
        guard isDurable else { return }
        try file.synchronizeAll()
        try Paths.synchronizeDirectory(directory)
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
            try blob.truncate(to: base)
            // Not the data alone: the new size must be there before the marker goes.
            if isDurable { try blob.synchronizeAll() }
        }
        try remove()
        return true
    }

    private func text() throws(SystemCallError) -> String? {
        let file: OpenFile
        do throws(SystemCallError) {
            file = try OpenFile.open(path, O_RDONLY)
        } catch  where error.number == ENOENT {
            return nil
        }
        // 19 digits and the line end at most.
        var buffer = [UInt8](repeating: 0, count: 32)
        let count = try SystemCallError.check("pread") { pread(file.descriptor, &buffer, buffer.count, 0) }
        return String(decoding: buffer.prefix(count), as: UTF8.self)
    }
}
