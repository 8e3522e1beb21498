internal import Bytes

#if canImport(Glibc)
internal import Glibc
#endif

/// A file that holds a number and a line end; one without was cut off by a crash while it was made.
enum NumberFile {
    /// What is in it; `nil` if there is none.
    static func text(at path: String) throws(SystemCallError) -> String? {
        let file: OpenFile
        do throws(SystemCallError) {
            file = try OpenFile.open(path, O_RDONLY)
        } catch  where error.number == ENOENT {
            return nil
        }
        // 19 digits and the line end at most.
        return String(decoding: try file.read(at: 0, maximum: 32), as: UTF8.self)
    }

    /// The number; `nil` if there is no whole one.
    static func value(at path: String) throws(SystemCallError) -> Int64? {
        guard let text = try text(at: path), text.hasSuffix("\n") else { return nil }
        return Int64(text.dropLast())
    }

    /// Makes it, in place of one that is there.
    ///
    /// - Parameters:
    ///   - value: The number.
    ///   - path: Of the file.
    ///   - directory: Where its name is recorded; `nil` if it need not survive more than the end of the process.
    /// - Throws: With nothing left but perhaps an empty file.
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
            // Else the next one who looks takes it for one that is durable.
            try? Paths.remove(path)
            throw error
        }
    }
}
