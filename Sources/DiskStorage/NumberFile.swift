internal import Bytes

#if canImport(Glibc)
internal import Glibc
#endif

/// A file with a number and a line end; without the line end, a crash interrupted its creation.
enum NumberFile {
    /// The content; `nil` if there is no file.
    static func text(at path: String) throws(SystemCallError) -> String? {
        let file: OpenFile
        do throws(SystemCallError) {
            file = try OpenFile.open(path, O_RDONLY)
        } catch  where error.number == ENOENT {
            return nil
        }
        // At most 19 digits and the line end.
        return String(decoding: try file.read(at: 0, maximum: 32), as: UTF8.self)
    }

    /// The number; `nil` if there is no complete one.
    static func value(at path: String) throws(SystemCallError) -> Int64? {
        guard let text = try text(at: path), text.hasSuffix("\n") else { return nil }
        return Int64(text.dropLast())
    }

    /// Creates or replaces the file.
    ///
    /// - Parameters:
    ///   - value: The number.
    ///   - path: Its path.
    ///   - directory: The directory to synchronise; `nil` if the file only has to survive the end of the process.
    /// - Throws: On failure at most an empty file remains.
    static func write(_ value: Int64, at path: String, durableIn directory: String?) throws(SystemCallError) {
        let file = try OpenFile.open(path, O_WRONLY | O_CREAT | O_TRUNC)
        if let failure = file.write(Array("\(value)\n".utf8), at: 0).failure {
            try? Paths.remove(path)
            throw failure
        }
        guard let directory else { return }
        do throws(SystemCallError) {
            try file.synchronizeAll()
            try Paths.synchronizeDirectory(directory)
        } catch {
            // Otherwise a later reader would consider it durable.
            try? Paths.remove(path)
            throw error
        }
    }
}
