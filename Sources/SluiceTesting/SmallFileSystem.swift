internal import Foundation

/// A file system in memory of limited size, to test a full disk; requires the superuser and permission to mount.
package final class SmallFileSystem: Sendable {
    package let path: String
    private let directory: TemporaryDirectory

    /// Whether this process may mount a file system.
    package static let isAvailable = (try? SmallFileSystem(bytes: 65536)) != nil

    package init(bytes: Int) throws {
        directory = try TemporaryDirectory()
        path = directory.path
        try Self.run("mount", ["-t", "tmpfs", "-o", "size=\(bytes),mode=0700", "tmpfs", path])
    }

    deinit {
        // A lazy unmount works even if a failed test left a descriptor open.
        try? Self.run("umount", ["-l", path])
    }

    private static func run(_ command: String, _ arguments: [String]) throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = [command] + arguments
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            throw ContractViolation(description: "\(command) ended with status \(process.terminationStatus)")
        }
    }
}
