internal import SystemIO

#if canImport(Glibc)
internal import Glibc
#endif

/// A file with a number and a line end; without the line end, a crash interrupted its creation.
enum NumberFile {
    /// The content; `nil` if there is no file.
    static func text(at path: String, _ io: BlockingIO) throws(SystemError) -> String? {
        let file: OpenFile
        do throws(SystemError) {
            file = try io.open(path, O_RDONLY)
        } catch  where error.errno == ENOENT {
            return nil
        }
        // At most 19 digits and the line end.
        return String(decoding: try io.read(file, at: 0, maximum: 32), as: UTF8.self)
    }

    /// The number; `nil` if there is no complete one.
    static func value(at path: String, _ io: BlockingIO) throws(SystemError) -> Int64? {
        guard let text = try text(at: path, io), text.hasSuffix("\n") else { return nil }
        return Int64(text.dropLast())
    }

    /// Creates or replaces the file.
    ///
    /// - Parameters:
    ///   - value: The number.
    ///   - path: Its path.
    ///   - directory: The directory to synchronise; `nil` if the file only has to survive the end of the process.
    ///   - io: Of the pool.
    /// - Throws: On failure at most an empty file remains.
    static func write(
        _ value: Int64,
        at path: String,
        durableIn directory: String?,
        _ io: BlockingIO
    ) throws(SystemError) {
        let file = try io.open(path, O_WRONLY | O_CREAT | O_TRUNC)
        if let failure = io.write(Array("\(value)\n".utf8), to: file, at: 0).failure {
            try? io.remove(path)
            throw failure
        }
        guard let directory else { return }
        do throws(SystemError) {
            try io.synchronizeAll(of: file)
            try io.synchronizeDirectory(directory)
        } catch {
            // Otherwise a later reader would consider it durable.
            try? io.remove(path)
            throw error
        }
    }
}
