import Bytes
import Foundation
import SluiceTesting
import SystemIO
import Testing
import UploadModel

@testable import DiskStorage

@Suite("The data directory", .timeLimit(.minutes(10)))
struct DataDirectoryTests {
    /// The result of `open` as soon as the lock is free.
    ///
    /// That can be later than the last use: a process that another test starts has a copy of every descriptor until it
    /// executes its program, and a thread of a pool releases a job after it has returned the result.
    private func whenFree<Success>(_ open: () throws -> Success) throws -> Success {
        for _ in 0..<100_000 {
            do { return try open() } catch DataDirectoryError.inUse { sched_yield() }
        }
        return try open()
    }

    private func mode(_ path: String) throws -> Int {
        let attributes = try FileManager.default.attributesOfItem(atPath: path)
        return try #require(attributes[.posixPermissions] as? Int)
    }

    @Test("it is created with its parents, for this user only")
    func make() throws {
        let temporary = try TemporaryDirectory()
        let root = temporary.path("a/b/data")
        let directory = try DataDirectory(at: root)
        #expect(try mode(root) == 0o700)
        #expect(try mode(root + "/blobs") == 0o700)
        #expect(try mode(root + "/lock") == 0o600)
        #expect(directory.statePath == root + "/state.sqlite")
        #expect(DataDirectory.statePath(in: root) == root + "/state.sqlite")
    }

    @Test("a directory that others can read is made private with its secret files, and reports that")
    func tighten() throws {
        let temporary = try TemporaryDirectory()
        let root = temporary.path("data")
        let files = ["master.secret", "admin.key", "state.sqlite", "state.sqlite-wal"]
        try FileManager.default.createDirectory(atPath: root + "/blobs", withIntermediateDirectories: true)
        for name in files { #expect(FileManager.default.createFile(atPath: root + "/" + name, contents: nil)) }
        let paths = [root, root + "/blobs"] + files.map { root + "/" + $0 }
        for path in paths { #expect(chmod(path, path.hasSuffix("blobs") || path == root ? 0o755 : 0o644) == 0) }
        var directory: DataDirectory? = try DataDirectory(at: root)
        #expect(Set(directory?.tightened ?? []) == Set(paths))
        for path in paths { #expect(try mode(path) & 0o077 == 0, "\(path)") }
        directory = nil
        directory = try whenFree { try DataDirectory(at: root) }
        #expect(directory?.tightened == [])
    }

    /// The reason why a directory is refused.
    private func refusal(of root: String) -> String {
        let error = #expect(throws: DataDirectoryError.self) { try DataDirectory(at: root) }
        guard case .unusable(root, let reason)? = error else { return "\(String(describing: error))" }
        return reason
    }

    @Test(
        "a directory of another user is refused, for root too",
        .enabled(if: geteuid() == 0),
        arguments: [0o700, 0o777]
    )
    func others(mode: mode_t) throws {
        let temporary = try TemporaryDirectory()
        let path = temporary.path("data")
        #expect(mkdir(path, 0o777) == 0 && chmod(temporary.path, 0o755) == 0)
        #expect(chown(path, 12_345, 12_345) == 0 && chmod(path, mode) == 0)
        let reason = refusal(of: path)
        #expect(reason.contains("belongs to user 12345") && reason.contains("user 0"))
        #expect(try self.mode(path) == Int(mode), "it is not changed")
        #expect(try FileManager.default.contentsOfDirectory(atPath: path).isEmpty)
    }

    @Test(
        "a directory that others can write to is refused with its content, and taken over without",
        arguments: [0o770, 0o702]
    )
    func writable(mode: mode_t) throws {
        let temporary = try TemporaryDirectory()
        let root = temporary.path("data")
        #expect(mkdir(root, 0o700) == 0 && chmod(root, mode) == 0)
        var directory: DataDirectory? = try DataDirectory(at: root)
        #expect(directory?.tightened == [root])
        directory = nil
        #expect(chmod(root, mode) == 0)
        let reason = refusal(of: root)
        #expect(reason.contains("other users can write") && reason.contains("chmod 0700"))
        #expect(try self.mode(root) == Int(mode))
    }

    @Test(
        "no link in the directory is followed",
        arguments: ["lock", "blobs", "master.secret", "state.sqlite", "state.sqlite-wal", "spool", "reserve"]
    )
    func links(name: String) throws {
        let temporary = try TemporaryDirectory()
        let (root, target) = (temporary.path("data"), temporary.path("target"))
        #expect(mkdir(root, 0o700) == 0)
        let isDirectory = name == "blobs" || name == "spool"
        if isDirectory {
            #expect(mkdir(target, 0o755) == 0)
        } else {
            try Data("precious".utf8).write(to: URL(fileURLWithPath: target))
        }
        #expect(chmod(target, 0o755) == 0)
        #expect(symlink(target, root + "/" + name) == 0)
        if name == "reserve" {
            #expect(try DataDirectory(at: root).reserve() == nil)
        } else {
            let reason = refusal(of: root)
            #expect(reason.contains(root + "/" + name) && reason.contains("link"), "\(reason)")
        }
        #expect(try mode(target) == 0o755)
        if !isDirectory { #expect(try String(contentsOfFile: target, encoding: .utf8) == "precious") }
    }

    @Test("a lock that is another name of a file is not overwritten")
    func hardLink() throws {
        let temporary = try TemporaryDirectory()
        let (root, target) = (temporary.path("data"), temporary.path("target"))
        #expect(mkdir(root, 0o700) == 0)
        try Data("precious".utf8).write(to: URL(fileURLWithPath: target))
        #expect(link(target, root + "/lock") == 0)
        #expect(refusal(of: root).contains(root + "/lock"))
        #expect(try String(contentsOfFile: target, encoding: .utf8) == "precious")
    }

    @Test("files are found in the directory that was checked, whatever is at its path later")
    func replaced() async throws {
        let temporary = try TemporaryDirectory()
        let root = temporary.path("data")
        let bench = try DiskBench(root: root)
        let id = try await bench.blob([1, 2, 3])
        #expect(rename(root, temporary.path("moved")) == 0)
        #expect(mkdir(temporary.path("planted"), 0o700) == 0 && symlink(temporary.path("planted"), root) == 0)
        #expect(try await bench.contents(of: id) == [1, 2, 3])
        let other = try await bench.blob([4])
        #expect(FileManager.default.fileExists(atPath: temporary.path("moved/blobs/")))
        #expect(try await bench.contents(of: other) == [4])
        #expect(try FileManager.default.contentsOfDirectory(atPath: temporary.path("planted")).isEmpty)
    }

    @Test("a blob that is a link is not written through")
    func linkedBlob() async throws {
        let temporary = try TemporaryDirectory()
        let bench = try DiskBench(root: temporary.path("data"))
        let id = try await bench.blob([])
        let (path, target) = (bench.directory.blobPath(id), temporary.path("target"))
        try Data("precious".utf8).write(to: URL(fileURLWithPath: target))
        #expect(unlink(path) == 0 && symlink(target, path) == 0)
        let report = await bench.storage.append(to: id, at: 8, from: ArraySource([1]), limit: 9, expecting: nil)
        #expect(report.stored == 0)
        #expect(try String(contentsOfFile: target, encoding: .utf8) == "precious")
    }

    @Test("the secret of another user is read by root's commands, and only theirs", .enabled(if: geteuid() == 0))
    func borrowed() throws {
        let temporary = try TemporaryDirectory()
        let path = temporary.path("secret")
        try Data("x".utf8).write(to: URL(fileURLWithPath: path))
        #expect(chown(path, 12_345, 12_345) == 0 && chmod(path, 0o644) == 0)
        let failure = #expect(throws: PrivatePath.Failure.self) { try PrivatePath.tighten(path) }
        #expect(failure?.description.contains("12345") == true)
        #expect(throws: PrivatePath.Failure.self) {
            try PrivatePath.tighten(path, as: 23_456, rootMayBorrow: true)
        }
        #expect(try mode(path) == 0o644)
        #expect(try PrivatePath.tighten(path, rootMayBorrow: true))
        #expect(try mode(path) == 0o600)
    }

    @Test("a path comes from the id alone, and its shard from the random end")
    func paths() throws {
        let temporary = try TemporaryDirectory()
        let directory = try DataDirectory(at: temporary.path("data"))
        let id = try #require(UploadID("01jxqfv2w8000000000000xyz7"))
        #expect(directory.blobPath(id) == temporary.path("data/blobs/z7/01jxqfv2w8000000000000xyz7"))
        #expect(directory.markerPath(id) == directory.blobPath(id) + ".unverified")
        for text in [
            "../../etc/passwd", "01jxqfv2w8000000000000xy/7", "01JXQFV2W8000000000000XYZ7", "", "..", "01jxqfv2w8",
        ] {
            #expect(UploadID(text) == nil)
        }
    }

    @Test("a second process gets directory and process id in the error, and the lock once the first has released it")
    func lock() throws {
        let temporary = try TemporaryDirectory()
        let root = temporary.path("data")
        var first: DataDirectory? = try DataDirectory(at: root)
        #expect(first != nil)
        let expected = DataDirectoryError.inUse(directory: root, process: ProcessInfo.processInfo.processIdentifier)
        #expect(throws: expected) { try DataDirectory(at: root) }
        #expect("\(expected)".contains(root))
        #expect("\(expected)".contains("process \(ProcessInfo.processInfo.processIdentifier)"))
        first = nil
        _ = try whenFree { try DataDirectory(at: root) }
    }

    @Test(
        "another process cannot lock it either",
        .enabled(if: FileManager.default.fileExists(atPath: "/usr/bin/flock"))
    )
    func lockOfProcess() throws {
        let temporary = try TemporaryDirectory()
        let root = temporary.path("data")
        func otherProcessLocks() throws -> Bool {
            let process = Process()
            process.executableURL = URL(fileURLWithPath: "/usr/bin/flock")
            process.arguments = ["--nonblock", root + "/lock", "true"]
            try process.run()
            process.waitUntilExit()
            return process.terminationStatus == 0
        }
        do {
            let directory = try DataDirectory(at: root)
            #expect(try !otherProcessLocks())
            #expect(directory.root == root)
        }
        #expect(try (0..<1000).contains { _ in try otherProcessLocks() })
    }

    @Test("existing files are kept")
    func reopen() async throws {
        let temporary = try TemporaryDirectory()
        let root = temporary.path("data")
        let id: UploadID
        do {
            id = try await DiskBench(root: root).blob([1, 2, 3])
        }
        let bench = try whenFree { try DiskBench(root: root) }
        #expect(try await bench.contents(of: id) == [1, 2, 3])
        #expect(try bench.directory.shards(.onCallingThread) == [DataDirectory.shard(of: id)])
    }

    @Test(
        "a path that is empty, a file or inside a file is refused by name",
        arguments: ["file", "file/data", ""]
    )
    func unusable(name: String) throws {
        let temporary = try TemporaryDirectory()
        try Data("x".utf8).write(to: URL(fileURLWithPath: temporary.path("file")))
        let root = name.isEmpty ? "" : temporary.path(name)
        let error = #expect(throws: DataDirectoryError.self) { try DataDirectory(at: root) }
        guard case .unusable(let directory, _) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(directory == root)
    }
}
