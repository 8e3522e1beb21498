internal import Bytes
internal import Digests
internal import Foundation
internal import Glibc
internal import GatewayKit
internal import SystemIO

/// Files of a backup: copied with their SHA-256, or linked if the backup before has them.
struct ChecksummedCopy {
    let io = BlockingIO.onCallingThread
    /// Files and bytes that were copied, and files that were linked.
    private(set) var copied = 0
    private(set) var copiedBytes: Int64 = 0
    private(set) var linked = 0

    /// Copies the first bytes of a file and hashes them.
    ///
    /// - Parameters:
    ///   - source: The file.
    ///   - target: Replaced if it exists.
    ///   - length: Most bytes to copy; `nil` for all.
    /// - Returns: The SHA-256 in hexadecimal.
    /// - Throws: The failure of a system call.
    mutating func copy(_ source: String, to target: String, first length: Int64? = nil) throws(SystemError) -> String {
        let input = try io.open(source, O_RDONLY)
        let before = try Self.status(of: source)
        let output = try io.open(target, O_WRONLY | O_CREAT | O_TRUNC)
        let digest = RunningDigest(.sha256)
        let end = length ?? .max
        var position: Int64 = 0
        while position < end {
            let piece = try io.read(input, at: position, maximum: Int(min(Self.pieceSize, end - position)))
            if piece.isEmpty { break }
            digest.update(piece)
            if let failure = io.write(piece, to: output, at: position).failure { throw failure }
            position += Int64(piece.count)
        }
        copied += 1
        copiedBytes += position
        // A file that has just been written can change again without another time: it is copied again the next time.
        let isSettled = time(nil) - before.st_mtim.tv_sec > 2
        var times = [timespec(), isSettled ? before.st_mtim : timespec(tv_sec: 1, tv_nsec: 0)]
        try SystemError.check("futimens") { SystemResult(futimens(output.descriptor, &times)) }
        return Hexadecimal.encode(digest.finish())
    }

    private static let pieceSize: Int64 = 1 << 20

    /// Links a file that is as it was when the backup before copied it.
    ///
    /// - Returns: Whether it was linked.
    mutating func link(_ source: String, asIn previous: String, to target: String) throws(SystemError) -> Bool {
        guard let old = try? Self.status(of: previous) else { return false }
        let new = try Self.status(of: source)
        guard old.st_size == new.st_size, old.st_mtim.tv_sec == new.st_mtim.tv_sec,
            old.st_mtim.tv_nsec == new.st_mtim.tv_nsec
        else { return false }
        guard Glibc.link(previous, target) == 0 else { return false }
        linked += 1
        return true
    }

    /// The SHA-256 of a file, in hexadecimal.
    func sum(of path: String) throws(SystemError) -> String {
        let file = try io.open(path, O_RDONLY)
        let digest = RunningDigest(.sha256)
        var position: Int64 = 0
        while true {
            let piece = try io.read(file, at: position, maximum: Int(Self.pieceSize))
            if piece.isEmpty { return Hexadecimal.encode(digest.finish()) }
            digest.update(piece)
            position += Int64(piece.count)
        }
    }

    /// Writes a list as `sha256sum` reads it.
    func write(_ sums: [(path: String, sum: String)], to path: String) throws(SystemError) {
        let text = sums.map { "\($0.sum)  \($0.path)\n" }.joined()
        let file = try io.open(path, O_WRONLY | O_CREAT | O_TRUNC)
        if let failure = io.write(Array(text.utf8), to: file, at: 0).failure { throw failure }
    }

    /// Reads such a list.
    func sums(at path: String) throws(SystemError) -> [String: String] {
        let file = try io.open(path, O_RDONLY)
        let size = try io.size(of: file)
        let text = String(decoding: try io.read(file, at: 0, maximum: Int(size)), as: UTF8.self)
        var sums: [String: String] = [:]
        for line in text.split(separator: "\n") {
            let fields = line.split(separator: " ", maxSplits: 1)
            if fields.count == 2 { sums[String(fields[1].dropFirst())] = String(fields[0]) }
        }
        return sums
    }

    private static func status(of path: String) throws(SystemError) -> stat {
        var status = stat()
        try SystemError.check("stat") { SystemResult(stat(path, &status)) }
        return status
    }
}
