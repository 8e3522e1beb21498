import Foundation
import Synchronization
import Testing
import Transport

@Suite("event loop and blocking pool")
struct TransportTests {
    private actor Confined {
        nonisolated let loop: EventLoop
        nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
        private(set) var log: [Int] = []

        init(_ loop: EventLoop) { self.loop = loop }

        func append(_ value: Int) { log.append(value) }

        func isOnLoop() -> Bool { loop.isCurrent }

        func isOnLoopAfterPool(_ pool: BlockingPool) async -> Bool {
            let wasOnLoop = await pool.run { [loop] in loop.isCurrent }
            return !wasOnLoop && loop.isCurrent
        }
    }

    /// How many were in it at once.
    private final class Gauge: Sendable {
        private let state = Mutex((now: 0, most: 0))

        var most: Int { state.withLock { $0.most } }

        func occupy(microseconds: UInt32) {
            state.withLock {
                $0.now += 1
                $0.most = max($0.most, $0.now)
            }
            usleep(microseconds)
            state.withLock { $0.now -= 1 }
        }
    }

    @Test("an actor on a loop runs there, also after work on the pool")
    func isolation() async throws {
        let loop = try EventLoop(label: "test")
        let pool = BlockingPool(threads: 2, label: "test")
        let actor = Confined(loop)
        #expect(!loop.isCurrent)
        #expect(await actor.isOnLoop())
        #expect(await actor.isOnLoopAfterPool(pool))
        loop.close()
    }

    @Test("jobs from many threads all run, each once")
    func manyThreads() async throws {
        let loop = try EventLoop(label: "test")
        let actor = Confined(loop)
        await withTaskGroup(of: Void.self) { group in
            for value in 0..<2000 { group.addTask { await actor.append(value) } }
        }
        #expect(await actor.log.sorted() == Array(0..<2000))
        loop.close()
    }

    @Test("closures handed to a loop run in their order")
    func order() async throws {
        let loop = try EventLoop(label: "test")
        let log = Mutex<[Int]>([])
        await withCheckedContinuation { continuation in
            for value in 0..<1000 { loop.execute { log.withLock { $0.append(value) } } }
            loop.execute { continuation.resume() }
        }
        #expect(log.withLock { $0 } == Array(0..<1000))
        loop.close()
    }

    @Test("the pool runs as many blocking calls at once as it has threads, and hands on what they throw")
    func pool() async throws {
        struct Refusal: Error {}
        let pool = BlockingPool(threads: 3, label: "test")
        let gauge = Gauge()
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<12 {
                group.addTask { await pool.run { gauge.occupy(microseconds: 20_000) } }
            }
        }
        #expect(gauge.most == 3)
        await #expect(throws: Refusal.self) { try await pool.run(throwing: { () throws(Refusal) in throw Refusal() }) }
    }

    @Test(
        "addresses are written as they are listened on",
        arguments: [("127.0.0.1", "127.0.0.1:80"), ("::1", "[::1]:80")]
    )
    func address(host: String, text: String) {
        #expect(SocketAddress(host: host, port: 80).description == text)
    }

    @Test("a host name is not an address to listen on")
    func notNumeric() throws {
        let loop = try EventLoop(label: "test")
        #expect(throws: SystemError.self) { try Listener(SocketAddress(host: "localhost", port: 0), loop: loop) }
        loop.close()
    }

    @Test("a certificate that is not there is named as the reason")
    func badCertificate() {
        #expect(throws: TLSFailure.self) { try TLSContext(certificatePath: "/nonexistent", keyPath: "/nonexistent") }
    }
}
