internal import Foundation

/// A file system in memory of a given size, to be filled to the brim; only for the superuser, and where mounting is allowed.
package final class SmallFileSystem: Sendable {
    package let path: String
    private let directory: TemporaryDirectory

    /// Whether this process may mount one.
    package static let isAvailable = (try? SmallFileSystem(bytes: 65536)) != nil

    package init(bytes: Int) throws {
        directory = try TemporaryDirectory()
        path = directory.path
        try Self.run("mount", ["-t", "tmpfs", "-o", "size=\(bytes),mode=0700", "tmpfs", path])
    }

    deinit {
        // Lazily, so that a descriptor left open by a failed test does not leave the mount behind.
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
