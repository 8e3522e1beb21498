import Dispatch
import Gateway
import Synchronization
import Testing
import Transport

@Suite("the watchdog of the service manager", .timeLimit(.minutes(10)))
struct ServiceWatchdogTests {
    @Test(
        "no messages are sent unless they are asked for",
        arguments: [
            [:], ["WATCHDOG_USEC": "0"], ["WATCHDOG_USEC": "-1"], ["WATCHDOG_USEC": "soon"],
            ["WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "8"],
        ]
    )
    func off(environment: [String: String]) async throws {
        let loops = try EventLoopGroup(count: 1)
        #expect(ServiceWatchdog(environment: environment, process: 7, loops: loops) == nil)
        await loops.close()
    }

    @Test("a loop that hangs gets no message for its process")
    func hanging() async throws {
        let loops = try EventLoopGroup(count: 2)
        let (sent, sending) = AsyncStream.makeStream(of: String.self)
        let environment = ["WATCHDOG_USEC": "3000", "WATCHDOG_PID": "7"]
        let watchdog = try #require(
            ServiceWatchdog(environment: environment, process: 7, loops: loops) { sending.yield($0) }
        )
        let gate = DispatchSemaphore(value: 0)
        let hasSent = Atomic(false)
        loops.loops[1].execute { gate.wait() }
        let task = Task { await watchdog.run() }
        let counting = Task {
            var messages = sent.makeAsyncIterator()
            let first = await messages.next()
            hasSent.store(true, ordering: .sequentiallyConsistent)
            // And again and again.
            let second = await messages.next()
            return [first, second]
        }
        // The other loop works, a hundred times.
        for _ in 0..<100 {
            await withUnsafeContinuation { continuation in loops.loops[0].execute { continuation.resume() } }
        }
        let wasEarly = hasSent.load(ordering: .sequentiallyConsistent)
        #expect(!wasEarly)
        gate.signal()
        #expect(await counting.value == ["WATCHDOG=1", "WATCHDOG=1"])
        task.cancel()
        await task.value
        await loops.close()
    }
}
