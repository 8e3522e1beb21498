internal import Bytes
internal import Foundation
internal import GatewayKit
internal import Synchronization
internal import SystemIO
internal import UploadModel

/// Records which blobs of a data directory were verified in a store, so that each is compared only once.
///
/// A text file with one line per blob: id and size. After a crash, an incomplete last line is ignored and that blob is
/// compared again, so nothing needs to be forced to disk.
final class MigratedBlobs: Sendable {
    private struct Contents {
        var lengths: [UploadID: Int64] = [:]
        var isAtLineStart = true
    }

    private let contents: Mutex<Contents>
    private let file: OpenFile

    /// Reads the file; creates it if it is missing.
    ///
    /// - Throws: `StartFailure`.
    init(path: String) throws(StartFailure) {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        guard descriptor >= 0, let data = FileManager.default.contents(atPath: path) else {
            throw StartFailure("\(path) cannot be written: \(String(cString: strerror(errno)))")
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
            // A truncated line must not become valid when more is appended.
            let line = Array(((contents.isAtLineStart ? "" : "?\n") + "\(id.text) \(length)\n").utf8)
            // If the disk is full, the blob is compared again.
            let written = line.withUnsafeBytes { write(file.descriptor, $0.baseAddress, $0.count) }
            contents.isAtLineStart = written == line.count
        }
    }
}
