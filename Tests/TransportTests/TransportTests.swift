import Foundation
import Synchronization
import SystemIO
import Testing
import Transport

@Suite("event loop and blocking pool", .timeLimit(.minutes(10)))
struct TransportTests {
    private actor Confined {
        nonisolated let loop: EventLoop
        nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
        private(set) var log: [Int] = []

        init(_ loop: EventLoop) { self.loop = loop }

        func append(_ value: Int) { log.append(value) }

        /// As many tasks on the loop, each of which becomes ready a second time.
        func yieldOften(_ count: Int) async {
            await withTaskGroup(of: Void.self) { group in
                for value in 0..<count {
                    group.addTask(executorPreference: loop) {
                        await self.append(value)
                        await Task.yield()
                        await self.append(value)
                    }
                }
            }
        }

        func isOnLoop() -> Bool { loop.isCurrent }

        func isOnLoopAfterPool(_ pool: BlockingPool) async -> Bool {
            let wasOnLoop = await pool.run { [loop] in loop.isCurrent }
            return !wasOnLoop && loop.isCurrent
        }
    }

    /// The maximum number of concurrent jobs.
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

    @Test("jobs that make others ready, many at once, all run, each once")
    func manyReady() async throws {
        let loop = try EventLoop(label: "test")
        let actor = Confined(loop)
        await actor.yieldOften(2000)
        #expect(await actor.log.count == 4000)
        loop.close()
    }

    @Test("closures submitted to a loop run in order")
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

    @Test("the pool runs as many blocking calls at once as it has threads, and passes on their errors")
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

    /// One end of a pair of connected sockets, on a loop.
    private actor Lender {
        nonisolated let loop: EventLoop
        nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
        private let descriptors: (near: Int32, far: Int32)
        /// Identifies the near end, even after its descriptor was reused.
        private let identity: UInt
        private var channel: Channel?

        init(_ loop: EventLoop) {
            self.loop = loop
            var pair: [Int32] = [-1, -1]
            #expect(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue), 0, &pair) == 0)
            descriptors = (pair[0], pair[1])
            identity = Self.identity(of: pair[0])
        }

        private static func identity(of descriptor: Int32) -> UInt {
            var status = stat()
            return fstat(descriptor, &status) == 0 ? UInt(status.st_ino) : 0
        }

        func begin() throws { channel = try Channel(descriptor: descriptors.near, loop: loop, tls: nil) }

        func lend(to pool: BlockingPool, _ work: @escaping @Sendable (Channel, BlockingIO) -> Bool) async throws -> Bool
        {
            let lent = try #require(channel)
            let result = await lent.lend(to: pool, work)
            #expect(loop.isCurrent)
            return result
        }

        func close() { channel?.close() }

        nonisolated var isOpen: Bool { Self.identity(of: descriptors.near) == identity }

        /// Whether the far end sees the end of the stream.
        nonisolated var isShut: Bool {
            var byte: UInt8 = 0
            return recv(descriptors.far, &byte, 1, 0) == 0
        }

        deinit { _ = Glibc.close(descriptors.far) }
    }

    @Test(
        "a channel that is closed while it is lent is shut down at once, and its descriptor is released only afterwards"
    )
    func closedWhileLent() async throws {
        let loop = try EventLoop(label: "test")
        let pool = BlockingPool(threads: 1, label: "test")
        let lender = Lender(loop)
        try await lender.begin()
        let (hasBegun, began) = AsyncStream.makeStream(of: Void.self)
        let mayEnd = DispatchSemaphore(value: 0)
        async let wasOpen = lender.lend(to: pool) { channel, _ in
            began.finish()
            mayEnd.wait()
            // It can still ask how much has arrived.
            return channel.lentReadableCount == 0 && lender.isOpen
        }
        for await _ in hasBegun {}
        #expect(!lender.isShut)
        await lender.close()
        #expect(lender.isShut)
        #expect(lender.isOpen)
        mayEnd.signal()
        #expect(try await wasOpen)
        #expect(!lender.isOpen)
        loop.close()
    }

    @Test("a channel that was returned after lending is closed at once")
    func closedAfterLent() async throws {
        let loop = try EventLoop(label: "test")
        let pool = BlockingPool(threads: 1, label: "test")
        let lender = Lender(loop)
        try await lender.begin()
        #expect(try await lender.lend(to: pool) { _, _ in true })
        #expect(lender.isOpen)
        await lender.close()
        #expect(!lender.isOpen)
        loop.close()
    }

    @Test("durations that overflow mean no limit")
    func longTimeouts() {
        #expect(MonotonicClock.span(seconds: 0) == 0)
        #expect(MonotonicClock.span(seconds: 18_446_744_073) == 18_446_744_073_000_000_000)
        #expect(MonotonicClock.span(seconds: 18_446_744_074) == .max)
        #expect(MonotonicClock.span(seconds: .max) == .max)
        #expect(MonotonicClock.span(.seconds(Int64.max)) == .max)
        #expect(MonotonicClock.span(.milliseconds(1500)) == 1_500_000_000)
        #expect(MonotonicClock.span(.zero) == .max)
        #expect(MonotonicClock.deadline(after: 5, since: .max - 4) == .max)
    }

    @Test(
        "addresses are described as they are configured",
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

    @Test("a missing certificate is named in the error")
    func badCertificate() {
        #expect(throws: TLSFailure.self) {
            try TLSContext([TLSFiles(certificate: "/nonexistent", key: "/nonexistent")])
        }
    }
}
