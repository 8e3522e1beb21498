import Foundation
import Synchronization
import SystemIO
import Testing

@testable import Transport

@Suite("accepting connections", .timeLimit(.minutes(10)))
struct ListenerTests {
    /// The errors that accept(2) lists, and one that it does not list.
    private static let errors = [
        ECONNABORTED, EMFILE, ENFILE, ENOBUFS, ENOMEM, EPROTO, EPERM, ENETDOWN, ENOPROTOOPT, EHOSTDOWN, ENONET,
        EHOSTUNREACH, EOPNOTSUPP, ENETUNREACH, EINTR, ECONNRESET, ETIMEDOUT, EINVAL, ENOSR, 4095,
    ]

    /// Fails the first calls.
    private final class Failing: Sendable {
        let code: Int32
        private let left: Mutex<Int>

        init(_ code: Int32, times: Int) {
            self.code = code
            left = Mutex(times)
        }

        /// Number of calls.
        let count = Mutex(0)

        var calls: Listener.Calls {
            Listener.Calls { [self] descriptor in
                count.withLock { $0 += 1 }
                let fails = left.withLock { left in
                    guard left > 0 else { return false }
                    left -= 1
                    return true
                }
                guard fails else { return Listener.Calls.real.accept(descriptor) }
                errno = code
                return (-1, nil)
            }
        }
    }

    private static func connect(to address: SocketAddress) throws -> Int32 {
        let client = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        try address.withSockaddr { pointer, size throws(SystemError) in
            _ = try SystemError.check("connect") { SystemResult(Foundation.connect(client, pointer, size)) }
        }
        return client
    }

    /// Returns when everything has run that was on the loop before.
    private static func turn(of loop: EventLoop) async {
        await withCheckedContinuation { continuation in loop.execute { continuation.resume() } }
    }

    @Test("it listens only at its address")
    func address() async throws {
        let loop = try EventLoop(label: "test")
        for host in ["127.0.0.1", "::1"] {
            let listener = try Listener(SocketAddress(host: host, port: 0), loop: loop)
            #expect(listener.address.host == host && listener.address.port > 0)
            await withCheckedContinuation { continuation in
                loop.execute {
                    listener.close()
                    continuation.resume()
                }
            }
        }
        loop.close()
    }

    @Test("no failure of accept ends the listener", .timeLimit(.minutes(10)), arguments: errors)
    func survives(code: Int32) async throws {
        let loop = try EventLoop(label: "test")
        let failing = Failing(code, times: 3)
        let listener = try Listener(SocketAddress(host: "127.0.0.1", port: 0), loop: loop, system: failing.calls)
        let client = try Self.connect(to: listener.address)
        defer { close(client) }
        let failures = Mutex<[SystemError]>([])
        let accepted = await withTaskExecutorPreference(loop) {
            await listener.accept { error in failures.withLock { $0.append(error) } }
        }
        if let accepted { close(accepted.descriptor) }
        #expect(accepted?.peer.host == "127.0.0.1")
        let isReported = code != EINTR
        #expect(
            failures.withLock { $0 }
                == (isReported ? Array(repeating: SystemError("accept", errno: code), count: 3) : [])
        )
        await withCheckedContinuation { continuation in
            loop.execute {
                listener.close()
                continuation.resume()
            }
        }
        await withCheckedContinuation { continuation in loop.close { continuation.resume() } }
    }

    /// A failure of one connection says nothing of the next, so several follow each other before the first pause.
    @Test(
        "while accept keeps failing, other work on the loop runs, and closing ends it",
        .timeLimit(.minutes(10)),
        arguments: [(EPERM, true), (EMFILE, false)]
    )
    func doesNotSpin(code: Int32, isOfPeer: Bool) async throws {
        let loop = try EventLoop(label: "test")
        let failing = Failing(code, times: .max)
        let listener = try Listener(SocketAddress(host: "127.0.0.1", port: 0), loop: loop, system: failing.calls)
        let client = try Self.connect(to: listener.address)
        defer { close(client) }
        async let accepted = withTaskExecutorPreference(loop) { await listener.accept() }
        while failing.count.withLock({ $0 == 0 }) { await Self.turn(of: loop) }
        await Self.turn(of: loop)
        #expect(failing.count.withLock { $0 >= 16 } == isOfPeer)
        loop.execute { listener.close() }
        #expect(await accepted == nil)
        await withCheckedContinuation { continuation in loop.close { continuation.resume() } }
    }
}
