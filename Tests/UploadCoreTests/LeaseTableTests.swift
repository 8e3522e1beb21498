import Bytes
import Foundation
import SluiceTesting
import Synchronization
import Testing

@testable import UploadCore
@testable import UploadModel

@Suite("Leases", .timeLimit(.minutes(10)))
struct LeaseTableTests {
    let id = UploadID.generate(at: Date(timeIntervalSince1970: 1_750_000_000))

    /// Records the order in which users ran.
    private final class Log: Sendable {
        private let names = Mutex<[String]>([])
        func add(_ name: String) { names.withLock { $0.append(name) } }
        var all: [String] { names.withLock { $0 } }
    }

    private func waitForWaiters(_ count: Int, _ table: LeaseTable) async {
        while table.waiterCount(of: id) != count { await Task.yield() }
    }

    private func hold(_ table: LeaseTable, _ gate: Gate, interrupter: SourceInterrupter? = nil) async -> UploadError
        .Code?
    {
        await code {
            try await table.withLease(on: id, interrupter: interrupter) { () async throws(UploadError) in
                await gate.pass()
            }
        }
    }

    private func hold(until gate: Gate, _ table: LeaseTable) async {
        while table.count == 0 { await Task.yield() }
    }

    @Test("uploads do not wait for each other")
    func independent() async throws {
        let table = LeaseTable(timeout: .seconds(600))
        let other = UploadID.generate(at: Date())
        let inner = try await table.withLease(on: id, interrupter: nil) { () async throws(UploadError) -> Int in
            try await table.withLease(on: other, interrupter: nil) { () async throws(UploadError) -> Int in table.count
            }
        }
        #expect(inner == 2)
        #expect(table.count == 0)
    }

    @Test("a lease ends when its body throws")
    func throwing() async {
        let table = LeaseTable(timeout: .seconds(600))
        let result = await code {
            try await table.withLease(on: id, interrupter: nil) { () async throws(UploadError) in
                throw UploadError(.notFound, "")
            }
        }
        #expect(result == .notFound)
        #expect(table.count == 0)
    }

    @Test("a newcomer interrupts the holder once, and runs when the lease is released")
    func takeOver() async {
        let takeOvers = Mutex(0)
        let table = LeaseTable(timeout: .seconds(600)) { _ in takeOvers.withLock { $0 += 1 } }
        let source = ScriptedSource([.stall])
        let log = Log()
        async let writer = code {
            try await table.withLease(on: id, interrupter: source.interrupter) { () async throws(UploadError) in
                _ = try? await source.next(maximum: 1)
                log.add("writer")
            }
        }
        await source.waitUntilStalled()
        await withTaskGroup(of: UploadError.Code?.self) { group in
            for _ in 0..<10 {
                group.addTask {
                    await code {
                        try await table.withLease(on: id, interrupter: nil) { () async throws(UploadError) in
                            log.add("reader")
                        }
                    }
                }
            }
            for await result in group { #expect(result == nil) }
        }
        #expect(await writer == nil)
        #expect(log.all == ["writer"] + Array(repeating: "reader", count: 10))
        #expect(source.interruptions == 1)
        #expect(takeOvers.withLock { $0 } == 1)
        #expect(table.count == 0)
    }

    @Test("waiting readers run in the order of arrival")
    func order() async {
        let table = LeaseTable(timeout: .seconds(600))
        let gate = Gate()
        let log = Log()
        async let holder = hold(table, gate)
        await hold(until: gate, table)
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<10 {
                group.addTask {
                    _ = await code {
                        try await table.withLease(on: id, interrupter: nil) { () async throws(UploadError) in
                            log.add("\(number)")
                        }
                    }
                }
                await waitForWaiters(number + 1, table)
            }
            await gate.open()
        }
        #expect(await holder == nil)
        #expect(log.all == (0..<10).map(String.init))
    }

    @Test("of ten waiting writers the newest runs, and the others are superseded")
    func newestWriterWins() async {
        let table = LeaseTable(timeout: .seconds(600))
        let gate = Gate()
        let log = Log()
        async let holder = hold(table, gate)
        await hold(until: gate, table)
        let refused = await withTaskGroup(of: (Int, UploadError.Code?).self) { group in
            for number in 0..<10 {
                group.addTask {
                    let result = await code {
                        let interrupter = SourceInterrupter { _ in }
                        try await table.withLease(on: id, interrupter: interrupter) { () async throws(UploadError) in
                            log.add("\(number)")
                        }
                    }
                    return (number, result)
                }
                // One waits; all earlier ones were rejected.
                if number > 0 {
                    let (loser, result) = await group.next() ?? (-1, nil)
                    #expect(loser == number - 1)
                    #expect(result == .interrupted)
                }
                await waitForWaiters(1, table)
            }
            await gate.open()
            return await group.reduce(0) { $0 + ($1.1 == nil ? 0 : 1) }
        }
        #expect(refused == 0)
        #expect(await holder == nil)
        #expect(log.all == ["9"])
    }

    @Test("a reader keeps its place before a newer writer, and supersedes an older one")
    func readersStay() async {
        let table = LeaseTable(timeout: .seconds(600))
        let gate = Gate()
        let log = Log()
        async let holder = hold(table, gate)
        await hold(until: gate, table)
        let interrupter = SourceInterrupter { _ in }
        async let oldWriter = code {
            try await table.withLease(on: id, interrupter: interrupter) { () async throws(UploadError) in
                log.add("old writer")
            }
        }
        await waitForWaiters(1, table)
        async let reader = code {
            try await table.withLease(on: id, interrupter: nil) { () async throws(UploadError) in log.add("reader") }
        }
        #expect(await oldWriter == .interrupted)
        await waitForWaiters(1, table)
        async let newWriter = code {
            try await table.withLease(on: id, interrupter: interrupter) { () async throws(UploadError) in
                log.add("new writer")
            }
        }
        await waitForWaiters(2, table)
        await gate.open()
        #expect(await holder == nil)
        #expect(await reader == nil)
        #expect(await newWriter == nil)
        #expect(log.all == ["reader", "new writer"])
    }

    @Test("after the timeout the upload is reported as busy, and the next waiter is served")
    func timeout() async {
        let refused = Log()
        let table = LeaseTable(timeout: .milliseconds(10), onRefusal: { _, error in refused.add(error.code.name) })
        let gate = Gate()
        async let holder = hold(table, gate)
        await hold(until: gate, table)
        #expect(await hold(table, gate) == .busy)
        #expect(refused.all == ["busy"])
        #expect(table.waiterCount(of: id) == 0)
        await gate.open()
        #expect(await holder == nil)
        #expect(await hold(table, gate) == nil)
        #expect(table.count == 0)
    }

    @Test("a cancelled waiter leaves the queue, whether it had joined it or not")
    func cancellation() async {
        let table = LeaseTable(timeout: .seconds(600))
        let gate = Gate()
        async let holder = hold(table, gate)
        await hold(until: gate, table)
        let waiting = Task { await hold(table, gate) }
        await waitForWaiters(1, table)
        waiting.cancel()
        #expect(await waiting.value == .unavailable)
        let late = Task {
            while !Task.isCancelled { await Task.yield() }
            return await hold(table, gate)
        }
        late.cancel()
        #expect(await late.value == .unavailable)
        #expect(table.waiterCount(of: id) == 0)
        await gate.open()
        #expect(await holder == nil)
        #expect(table.count == 0)
    }

    @Test("a lease without interruption is granted only if the upload is free")
    func ifFree() async throws {
        let table = LeaseTable(timeout: .seconds(600))
        let gate = Gate()
        let source = ScriptedSource([])
        async let holder = hold(table, gate, interrupter: source.interrupter)
        await hold(until: gate, table)
        let missed = try await table.withLeaseIfFree(on: id) { () async throws(UploadError) -> Int in 1 }
        #expect(missed == nil)
        #expect(source.interruptions == 0)
        await gate.open()
        #expect(await holder == nil)
        let had = try await table.withLeaseIfFree(on: id) { () async throws(UploadError) -> Int in 1 }
        #expect(had == 1)
        #expect(table.count == 0)
    }

    @Test("at shutdown the writer ends, waiting and later writers are rejected, readers are still served")
    func shutdown() async {
        let table = LeaseTable(timeout: .seconds(600))
        let reason = Mutex<SourceFailure?>(nil)
        let gate = Gate()
        let interrupter = SourceInterrupter { failure in reason.withLock { $0 = $0 ?? failure } }
        async let holder = hold(table, gate, interrupter: interrupter)
        await hold(until: gate, table)
        async let reader = hold(table, gate)
        await waitForWaiters(1, table)
        async let writer = hold(table, gate, interrupter: SourceInterrupter { _ in })
        await waitForWaiters(2, table)
        table.interruptAll()
        #expect(await writer == .unavailable)
        #expect(await hold(table, gate, interrupter: interrupter) == .unavailable)
        #expect(table.waiterCount(of: id) == 1)
        await gate.open()
        #expect(await holder == nil)
        #expect(await reader == nil)
        // The reader arrived first, and interrupted it as a newer request does.
        #expect(reason.withLock { $0 } == .interrupted)
        #expect(await hold(table, gate, interrupter: interrupter) == .unavailable)
        #expect(await hold(table, gate) == nil)
    }

    /// Other nodes: grants a lease, or refuses it.
    private final class Nodes: LeaseAuthority {
        let log = Log()
        let refusal = Mutex<UploadError?>(nil)

        func acquire(
            _ id: UploadID,
            _ claim: LeaseClaim,
            until deadline: ContinuousClock.Instant
        ) async throws(UploadError) {
            log.add("acquire")
            if let refusal = refusal.withLock({ $0 }) { throw refusal }
        }

        func acquireIfFree(_ id: UploadID) async throws(UploadError) -> Bool {
            log.add("acquireIfFree")
            return refusal.withLock { $0 == nil }
        }

        func release(_ id: UploadID) async { log.add("release") }

        func attach(isWanted: @escaping @Sendable (UploadID) -> Void) {}
    }

    @Test("a lease is that of all nodes: without theirs nothing runs, and they get it back")
    func nodes() async throws {
        let nodes = Nodes()
        let table = LeaseTable(timeout: .seconds(600), among: nodes)
        func use() async -> UploadError.Code? {
            await code {
                try await table.withLease(on: id, interrupter: nil) { () async throws(UploadError) in
                    nodes.log.add("body")
                }
            }
        }
        func useIfFree() async throws(UploadError) -> Bool {
            let result = try await table.withLeaseIfFree(on: id) { () async throws(UploadError) -> Bool in
                nodes.log.add("body")
                return true
            }
            return result ?? false
        }
        #expect(await use() == nil)
        #expect(try await useIfFree())
        #expect(nodes.log.all == ["acquire", "body", "release", "acquireIfFree", "body", "release"])
        nodes.refusal.withLock { $0 = UploadError(.busy, "another node") }
        #expect(await use() == .busy)
        #expect(try await !useIfFree())
        #expect(nodes.log.all.suffix(2) == ["acquire", "acquireIfFree"])
        #expect(table.count == 0)
    }
}
