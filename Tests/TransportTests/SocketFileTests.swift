import Foundation
import SystemIO
import Testing

@testable import Transport

@Suite("Unix sockets", .timeLimit(.minutes(10)))
struct SocketFileTests {
    private static func withFolder(_ body: (String) async throws -> Void) async throws {
        let folder = FileManager.default.temporaryDirectory.path + "/sluice-\(UUID().uuidString.prefix(8))"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try await body(folder)
    }

    private static func close(_ listener: Listener) async {
        await withCheckedContinuation { continuation in
            listener.loop.execute {
                listener.close()
                continuation.resume()
            }
        }
    }

    @Test("the mode of nothing but a socket is changed")
    func links() async throws {
        try await Self.withFolder { folder in
            let path = folder + "/file"
            try Data().write(to: URL(filePath: path))
            let permissions = [FileAttributeKey.posixPermissions: 0o600]
            try FileManager.default.setAttributes(permissions, ofItemAtPath: path)
            try FileManager.default.createSymbolicLink(atPath: folder + "/link", withDestinationPath: path)
            let socket = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
            defer { Foundation.close(socket) }
            let bound = try SocketAddress(unixPath: folder + "/s").withSockaddr {
                pointer,
                size throws(SystemError) in bind(socket, pointer, size)
            }
            #expect(bound == 0)
            try FileManager.default.createSymbolicLink(atPath: folder + "/socketlink", withDestinationPath: "s")
            for name in ["file", "link", "socketlink"] {
                #expect(throws: SystemError("chmod", errno: EEXIST)) {
                    try SocketFile.admitGroup(to: folder + "/" + name)
                }
            }
            #expect(throws: SystemError("chmod", errno: ENOENT)) { try SocketFile.admitGroup(to: folder + "/none") }
            let before = try FileManager.default.attributesOfItem(atPath: path)
            #expect(before[.posixPermissions] as? Int == 0o600)
            try SocketFile.admitGroup(to: folder + "/s")
            let after = try FileManager.default.attributesOfItem(atPath: folder + "/s")
            #expect(after[.posixPermissions] as? Int == 0o660)
        }
    }

    @Test("a socket is served, replaced when its process has gone, and removed at the end")
    func life() async throws {
        let loops = try EventLoopGroup(count: 1)
        try await Self.withFolder { folder in
            let address = SocketAddress(unixPath: folder + "/s")
            let first = try Listener(address, loop: loops.next())
            #expect(first.address == address && "\(address)" == "unix:\(folder)/s")
            let attributes = try FileManager.default.attributesOfItem(atPath: folder + "/s")
            #expect(attributes[.posixPermissions] as? Int == 0o660)
            #expect(throws: SystemError("bind", errno: EADDRINUSE)) { try Listener(address, loop: loops.next()) }
            let client = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
            defer { Foundation.close(client) }
            let result = try address.withSockaddr { pointer, size throws(SystemError) in connect(client, pointer, size)
            }
            #expect(result == 0)
            let accepted = await withTaskExecutorPreference(first.loop) { await first.accept() }
            #expect(accepted?.peer == SocketAddress(unixPath: ""))
            accepted.map { _ = Foundation.close($0.descriptor) }
            await Self.close(first)
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder) == [])

            // A process that was killed leaves its file.
            let left = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
            let bound = try address.withSockaddr { pointer, size throws(SystemError) in bind(left, pointer, size) }
            #expect(bound == 0)
            Foundation.close(left)
            let second = try Listener(address, loop: loops.next())
            // Another process's file stays.
            try FileManager.default.removeItem(atPath: folder + "/s")
            try Data().write(to: URL(filePath: folder + "/s"))
            await Self.close(second)
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder) == ["s"])
        }
        await loops.close()
    }

    @Test("nothing but a socket is replaced")
    func others() async throws {
        let loops = try EventLoopGroup(count: 1)
        try await Self.withFolder { folder in
            try Data("kept".utf8).write(to: URL(filePath: folder + "/file"))
            for path in ["/file", "/missing/s", "/" + String(repeating: "x", count: 200)] {
                #expect(throws: SystemError.self) {
                    try Listener(SocketAddress(unixPath: folder + path), loop: loops.next())
                }
            }
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder) == ["file"])
            #expect(try String(contentsOfFile: folder + "/file", encoding: .utf8) == "kept")
        }
        await loops.close()
    }

    @Test("peers of Unix sockets have a name of their own among trusted ones")
    func peers() throws {
        let unix = try #require(PeerRange("unix:"))
        let range = try #require(PeerRange("10.0.0.0/8"))
        #expect(unix.contains("unix:") && !unix.contains("10.0.0.1") && "\(unix)" == "unix:")
        #expect(range.contains("10.0.0.1") && !range.contains("unix:") && "\(range)" == "10.0.0.0/8")
        for text in ["unix", "unix:/run/x", "", "10.0.0.1/8"] { #expect(PeerRange(text) == nil) }
    }
}
