internal import Bytes
internal import Foundation
internal import Synchronization
internal import UploadCore

/// Which blobs of a data directory a store was found to have, byte by byte, so that it is asked only once.
///
/// A text file, a line for each: id and bytes. What a crash left of its last line counts for nothing, and that blob is
/// compared again; so nothing needs to be forced to disk.
final class MigratedBlobs: Sendable {
    private struct Contents {
        var lengths: [UploadID: Int64] = [:]
        var isAtLineStart = true
    }

    private let contents: Mutex<Contents>
    private let file: OpenFile

    /// Reads the file, and makes it if it is missing.
    ///
    /// - Throws: `StartFailure`.
    init(path: String) throws(StartFailure) {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        guard descriptor >= 0, let data = FileManager.default.contents(atPath: path) else {
            throw StartFailure("\(path) can not be written: \(String(cString: strerror(errno)))")
        }
        file = OpenFile(owning: descriptor)
        var found = Contents()
        let text = String(decoding: data, as: UTF8.self)
        found.isAtLineStart = text.isEmpty || text.hasSuffix("\n")
        var lines = text.split(separator: "\n")
        if !found.isAtLineStart { lines.removeLast() }
        for line in lines {
            let words = line.split(separator: " ")
            guard words.count == 2, let id = UploadID(words[0]), let length = Int64(words[1]) else { continue }
            found.lengths[id] = length
        }
        contents = Mutex(found)
    }

    func contains(_ id: UploadID, length: Int64) -> Bool { contents.withLock { $0.lengths[id] == length } }

    func add(_ id: UploadID, length: Int64) {
        contents.withLock { contents in
            if contents.lengths[id] == length { return }
            contents.lengths[id] = length
            // A line that was cut off must not look whole with an end.
            let line = Array(((contents.isAtLineStart ? "" : "?\n") + "\(id.text) \(length)\n").utf8)
            // On a full disk it is compared again.
            let written = line.withUnsafeBytes { write(file.descriptor, $0.baseAddress, $0.count) }
            contents.isAtLineStart = written == line.count
        }
    }
}
