import Foundation
import SystemIO
import Testing

@testable import Transport

@Suite("sockets and notices of a service manager", .timeLimit(.minutes(10)))
struct InheritedSocketsTests {
    private static func sockets(_ names: String?, count: String = "2", process: Int32 = 7) -> InheritedSockets {
        var environment = ["LISTEN_PID": "7", "LISTEN_FDS": count]
        environment["LISTEN_FDNAMES"] = names
        return InheritedSockets(environment: environment, process: process)
    }

    @Test("sockets are found by their names, which have an order where there are none")
    func names() {
        let named = Self.sockets("object:gateway")
        #expect(named["gateway"] == 4 && named["object"] == 3 && named["other"] == nil)
        for names in [nil, "unknown:unknown", "a"] {
            let unnamed = Self.sockets(names)
            #expect(unnamed["gateway"] == 3 && unnamed["object"] == 4)
        }
        #expect(Self.sockets("object", count: "1")["gateway"] == nil)
        #expect(Self.sockets("gateway:gateway")["gateway"] == 3)
    }

    @Test("what is for another process, or cannot be read, is left alone")
    func others() {
        #expect(Self.sockets("gateway:object", process: 8)["gateway"] == nil)
        for count in ["", "0", "-1", "x", "99999999999"] { #expect(Self.sockets(nil, count: count)["gateway"] == nil) }
        #expect(InheritedSockets()["gateway"] == nil)
    }

    @Test("a listener takes over a socket that listens, and nothing else")
    func listener() async throws {
        let loop = try EventLoopGroup(count: 1)
        func open() -> Int32 { socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0) }
        let descriptor = open()
        let wanted = SocketAddress(host: "127.0.0.1", port: 0)
        try wanted.withSockaddr { pointer, size throws(SystemError) in
            _ = try SystemError.check("bind") { SystemResult(bind(descriptor, pointer, size)) }
        }
        #expect(throws: SystemError.self) { try Listener(inherited: open(), loop: loop.next()) }
        #expect(throws: SystemError.self) { try Listener(inherited: 1_000_000, loop: loop.next()) }
        #expect(listen(descriptor, 8) == 0)
        let listener = try Listener(inherited: descriptor, loop: loop.next())
        #expect(listener.address.port > 0)
        #expect(fcntl(descriptor, F_GETFD) & FD_CLOEXEC != 0)
        let client = open()
        try listener.address.withSockaddr { pointer, size throws(SystemError) in
            _ = try SystemError.check("connect") { SystemResult(connect(client, pointer, size)) }
        }
        let accepted = await withTaskExecutorPreference(listener.loop) { await listener.accept() }
        #expect(accepted?.peer.host == "127.0.0.1")
        accepted.map { _ = close($0.descriptor) }
        close(client)
        listener.loop.execute { listener.close() }
        await loop.close()
    }

    @Test("the service manager is told, by a path or by a name that is in no file system")
    func notices() throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        for path in [folder.appending(path: "notify").path, "@\(UUID().uuidString)"] {
            #expect(!ServiceManager.send("READY=1", to: path))
            let receiver = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
            defer { close(receiver) }
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            var bytes = Array(path.utf8)
            if bytes[0] == UInt8(ascii: "@") { bytes[0] = 0 }
            withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
            let size = socklen_t(MemoryLayout<sa_family_t>.size + bytes.count)
            let bound = withUnsafePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(receiver, $0, size) }
            }
            try #require(bound == 0)
            #expect(ServiceManager.send("READY=1", to: path))
            var buffer = [UInt8](repeating: 0, count: 64)
            let count = recv(receiver, &buffer, buffer.count, Int32(MSG_DONTWAIT))
            #expect(buffer.prefix(max(0, count)).elementsEqual("READY=1".utf8))
        }
        #expect(!ServiceManager.send("READY=1", to: String(repeating: "x", count: 200)))
    }
}
