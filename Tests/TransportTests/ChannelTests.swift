import Foundation
import SystemIO
import Testing

@testable import Transport

@Suite("waits of a channel", .timeLimit(.minutes(10)))
struct ChannelTests {
    /// One end of a pair of connected sockets, on a loop; the other is `far`.
    private actor Near {
        nonisolated let loop: EventLoop
        nonisolated let far: Int32
        nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
        private let descriptor: Int32
        private var channel: Channel?

        init(_ loop: EventLoop) {
            self.loop = loop
            var pair: [Int32] = [-1, -1]
            #expect(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue), 0, &pair) == 0)
            (descriptor, far) = (pair[0], pair[1])
        }

        private func open() throws -> Channel {
            if let channel { return channel }
            let new = try Channel(descriptor: descriptor, loop: loop, tls: nil)
            channel = new
            return new
        }

        /// Reads or writes until that would block; returns how many bytes.
        func exhaust(reading: Bool) throws -> Int {
            let channel = try open()
            var bytes = [UInt8](repeating: 1, count: 65_536)
            var total = 0
            while true {
                let result = bytes.withUnsafeMutableBytes {
                    reading ? channel.read(into: $0) : channel.write(UnsafeRawBufferPointer($0))
                }
                guard case .moved(let count) = result else { return total }
                total += count
            }
        }

        /// Reads once, so much that it would empty the socket.
        func read() throws -> Int {
            var bytes = [UInt8](repeating: 1, count: 65_536)
            guard case .moved(let count) = try bytes.withUnsafeMutableBytes(open().read(into:)) else { return 0 }
            return count
        }

        /// The result of a wait that only an event before it can end well.
        func wait(reading: Bool) async throws -> Result<Void, Channel.WaitFailure> {
            let channel = try open()
            return reading ? await channel.readability(until: 0) : await channel.writability(until: 0)
        }

        /// What ends two waits when the channel is closed meanwhile, and one after that.
        func waitUntilClosed() async throws -> [Channel.WaitFailure?] {
            let channel = try open()
            loop.execute { channel.close() }
            func failure(_ result: Result<Void, Channel.WaitFailure>) -> Channel.WaitFailure? {
                if case .failure(let failure) = result { failure } else { nil }
            }
            let first = failure(await channel.readability(until: .max))
            return [first, failure(await channel.writability(until: .max))]
        }

        func close() { channel?.close() }
    }

    /// Returns when the loop has looked at its sockets since the call.
    private func look(_ loop: EventLoop) async {
        for _ in 0..<2 { await withCheckedContinuation { continuation in loop.execute { continuation.resume() } } }
    }

    @Test("bytes that arrive while nobody waits end the next wait at once")
    func readable() async throws {
        let loop = try EventLoop(label: "test")
        let near = Near(loop)
        defer { close(near.far) }
        #expect(try await near.exhaust(reading: true) == 0)
        #expect(try await near.wait(reading: true) == .failure(.timedOut))
        #expect(send(near.far, [1, 2], 2, 0) == 2)
        await look(loop)
        #expect(try await near.wait(reading: true) == .success)
        #expect(try await near.exhaust(reading: true) == 2)
        // The end of the stream is reported only once, here before the last bytes are read.
        #expect(send(near.far, [3], 1, 0) == 1)
        #expect(shutdown(near.far, Int32(SHUT_WR)) == 0)
        await look(loop)
        #expect(try await near.read() == 1)
        for _ in 0..<2 {
            #expect(try await near.wait(reading: true) == .success)
            #expect(try await near.read() == 0)
        }
        await near.close()
        await withCheckedContinuation { continuation in loop.close { continuation.resume() } }
    }

    @Test("room that comes while nobody waits ends the next wait at once")
    func writable() async throws {
        let loop = try EventLoop(label: "test")
        let near = Near(loop)
        defer { close(near.far) }
        var left = try await near.exhaust(reading: false)
        #expect(try await near.wait(reading: false) == .failure(.timedOut))
        var bytes = [UInt8](repeating: 0, count: 65_536)
        while left > 0 {
            let count = recv(near.far, &bytes, bytes.count, 0)
            try #require(count > 0)
            left -= count
        }
        await look(loop)
        #expect(try await near.wait(reading: false) == .success)
        await near.close()
        await withCheckedContinuation { continuation in loop.close { continuation.resume() } }
    }

    @Test("a wait ends when the channel is closed, and later ones at once")
    func closed() async throws {
        let loop = try EventLoop(label: "test")
        let near = Near(loop)
        defer { close(near.far) }
        #expect(try await near.exhaust(reading: true) == 0)
        #expect(try await near.waitUntilClosed() == [.closed, .closed])
        await withCheckedContinuation { continuation in loop.close { continuation.resume() } }
    }
}

extension Result<Void, Channel.WaitFailure> {
    fileprivate static var success: Self { .success(()) }

    fileprivate static func == (one: Self, other: Self) -> Bool {
        switch (one, other) {
        case (.success, .success): true
        case (.failure(let one), .failure(let other)): one == other
        default: false
        }
    }
}
