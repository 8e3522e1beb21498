import Glibc
import SystemIO
import Testing

@testable import Transport

@Suite(.timeLimit(.minutes(10)))
struct LocalExchangeTests {
    /// A server on this machine that never answers: connections wait in its backlog.
    private static func silent() throws -> (descriptor: Int32, address: SocketAddress) {
        let path = "/tmp/sluice-local-\(UInt64.random(in: 0 ... .max)).sock"
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        let address = SocketAddress(unixPath: path)
        try address.withSockaddr { pointer, size throws(SystemError) in
            _ = try SystemError.check("bind") { SystemResult(bind(descriptor, pointer, size)) }
            _ = try SystemError.check("listen") { SystemResult(listen(descriptor, 1)) }
        }
        return (descriptor, address)
    }

    @Test("A server that does not answer is not waited for longer than allowed")
    func silence() throws {
        let server = try Self.silent()
        defer {
            close(server.descriptor)
            unlink(server.address.unixPath ?? "")
        }
        let error = #expect(throws: SystemError.self) {
            try LocalExchange.response(to: [1], from: server.address, limit: 10, within: .milliseconds(50))
        }
        #expect(error?.errno == ETIMEDOUT)
    }

    @Test("A response ends with the connection, and at the limit", arguments: [3, 5, 100])
    func response(limit: Int) async throws {
        let server = try Self.silent()
        defer {
            close(server.descriptor)
            unlink(server.address.unixPath ?? "")
        }
        let served = BlockingPool(threads: 1, label: "local-exchange")
        async let asked = served.run { () -> [UInt8] in
            let peer = accept(server.descriptor, nil, nil)
            var request = [UInt8](repeating: 0, count: 4)
            let count = recv(peer, &request, 4, Int32(MSG_WAITALL))
            send(peer, "hello", 5, Int32(MSG_NOSIGNAL))
            close(peer)
            return Array(request.prefix(max(0, count)))
        }
        let asking = BlockingPool(threads: 1, label: "local-exchange")
        let response = try await asking.run(throwing: {
            try LocalExchange.response(to: Array("ping".utf8), from: server.address, limit: limit, within: .seconds(60))
        })
        #expect(response == Array("hello".utf8.prefix(limit)))
        #expect(await asked == Array("ping".utf8))
    }

    @Test("A server that always does a little is not waited for longer than allowed", arguments: [true, false])
    func slowness(reads: Bool) async throws {
        let server = try Self.silent()
        defer {
            close(server.descriptor)
            unlink(server.address.unixPath ?? "")
        }
        let served = BlockingPool(threads: 1, label: "local-exchange")
        async let moved = served.run { () -> Int in
            let peer = accept(server.descriptor, nil, nil)
            defer { close(peer) }
            var bytes = [UInt8](repeating: 0, count: 65_536)
            var moved = 0
            // Ends: with the connection, or because all was moved.
            while moved < 4_000_000 {
                let count = reads ? recv(peer, &bytes, 65_536, 0) : send(peer, "a", 1, Int32(MSG_NOSIGNAL))
                guard count > 0 else { break }
                moved += reads ? count : 4000
                usleep(10_000)
            }
            return moved
        }
        let asking = BlockingPool(threads: 1, label: "local-exchange")
        let request = [UInt8](repeating: 1, count: reads ? 4_000_000 : 1)
        let error = await #expect(throws: SystemError.self) {
            try await asking.run(throwing: {
                try LocalExchange.response(to: request, from: server.address, limit: 1000, within: .milliseconds(100))
            })
        }
        #expect(error?.errno == ETIMEDOUT)
        #expect(await moved < 4_000_000)
    }

    @Test("Nobody listens")
    func nobody() {
        let error = #expect(throws: SystemError.self) {
            let nowhere = SocketAddress(unixPath: "/tmp/sluice-local-none-\(UInt64.random(in: 0 ... .max))")
            _ = try LocalExchange.response(to: [1], from: nowhere, limit: 10, within: .seconds(1))
        }
        #expect(error == SystemError("connect", errno: ENOENT))
    }
}
