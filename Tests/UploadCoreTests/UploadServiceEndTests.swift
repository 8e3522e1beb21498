import Bytes
import Foundation
import SluiceTesting
import Testing

@testable import UploadCore
@testable import UploadModel

@Suite("Ends, lists and sweeps", .timeLimit(.minutes(10)))
struct UploadServiceEndTests {
    @Test("a terminated upload and its bytes are gone", arguments: [[1, 2], [1, 2, 3, 4, 5]] as [[UInt8]])
    func terminate(bytes: [UInt8]) async throws {
        let bench = ServiceBench()
        let id = try await bench.upload(5, holding: bytes)
        try await bench.services.uploads.terminate(id)
        #expect(try await bench.services.uploads.inspect(id).state == .terminated)
        #expect(try await bench.storage.list(after: nil, limit: 10) == [])
        for body in [
            { _ = try await bench.services.uploads.status(of: id) },
            { _ = try await bench.services.media.media(id) },
            { _ = try await bench.services.media.open(id) },
            { try await bench.services.uploads.terminate(id) },
        ] { #expect(await code(body) == .gone) }
        #expect(bench.observer.story.last == "terminated")
    }

    @Test("an unknown upload is not found by any operation")
    func unknown() async {
        let bench = ServiceBench()
        let id = UploadID.generate(at: bench.clock.now)
        for body in [
            { _ = try await bench.services.uploads.status(of: id) },
            { _ = try await bench.services.uploads.inspect(id) },
            { _ = try await bench.services.media.media(id) },
            { _ = try await bench.services.media.open(id) },
            { try await bench.services.uploads.terminate(id) },
        ] { #expect(await code(body) == .notFound) }
    }

    @Test("an expired upload is gone before the sweep has seen it")
    func lazyExpiry() async throws {
        let bench = ServiceBench()
        let ids = [try await bench.upload(5, holding: [1]), try await bench.upload(5), try await bench.upload(5)]
        bench.clock.advance(by: 3600)
        #expect(await code { try await bench.services.uploads.status(of: ids[0]) } == .gone)
        #expect(await code { try await bench.append([1], to: ids[1], at: 0) } == .gone)
        #expect(await code { try await bench.services.uploads.terminate(ids[2]) } == .gone)
        for id in ids { #expect(try await bench.services.uploads.inspect(id).state == .expired) }
        #expect(try await bench.storage.list(after: nil, limit: 10) == [])
    }

    @Test("the sweep expires uploads once, and leaves the rest")
    func sweepExpired() async throws {
        let bench = ServiceBench()
        let old = try await bench.upload(5, holding: [1])
        let complete = try await bench.upload(1, holding: [1])
        bench.clock.advance(by: 1800)
        let young = try await bench.upload(5, holding: [1])
        bench.clock.advance(by: 1800)
        var expected = SweepReport()
        expected.expired = 1
        #expect(await bench.services.sweep.run() == expected)
        #expect(await bench.services.sweep.run() == SweepReport())
        #expect(try await bench.services.uploads.inspect(old).state == .expired)
        #expect(try await bench.services.uploads.status(of: young).offset == 1)
        #expect(try await bench.services.media.media(complete).size == 1)
        #expect(try await Set(bench.storage.list(after: nil, limit: 10)) == [young, complete])
        #expect(bench.observer.story.filter { $0 == "expired" }.count == 1)
    }

    @Test("more expired uploads than one page holds all expire in one sweep")
    func sweepPages() async throws {
        let bench = ServiceBench()
        for _ in 0..<1100 { _ = try await bench.upload(5) }
        bench.clock.advance(by: 7200)
        #expect(await bench.services.sweep.run().expired == 1100)
        #expect(try await bench.storage.list(after: nil, limit: 10) == [])
    }

    @Test("expired uploads that cannot be ended, however many, do not hide those behind them")
    func sweepBehindFailures() async throws {
        let bench = ServiceBench()
        for _ in 0..<600 { _ = try await bench.upload(5) }
        bench.clock.advance(by: 1)
        let last = try await bench.upload(5)
        bench.clock.advance(by: 7200)
        // Each fails once; none is tried again in the same sweep.
        bench.state.plan.fail(.end, count: 600)
        let report = await bench.services.sweep.run()
        #expect(report.expired == 1 && report.failures == 600)
        #expect(try await bench.state.upload(last)?.state == .expired)
        #expect(await bench.services.sweep.run().expired == 600)
    }

    @Test("records of ended uploads are removed after the retention time")
    func forget() async throws {
        let bench = ServiceBench()
        let id = try await bench.upload(5)
        try await bench.services.uploads.terminate(id)
        bench.clock.advance(by: bench.limits.recordRetention)
        _ = await bench.services.sweep.run()
        #expect(try await bench.services.uploads.inspect(id).state == .terminated)
        bench.clock.advance(by: 1)
        _ = await bench.services.sweep.run()
        #expect(await code { try await bench.services.uploads.inspect(id) } == .notFound)
    }

    @Test("an event whose delivery is dead is removed after four weeks")
    func forgetDead() async throws {
        let bench = ServiceBench(limits: UploadLimits(lifetime: nil))
        let upload = try await bench.services.uploads.inspect(try await bench.upload(5))
        let first = try await bench.state.lastEvent()
        for state in [EventRecord.Delivery.State.delivered, .dead] {
            var event = EventRecord.sample(.updated, of: upload)
            event.delivery = EventRecord.Delivery(state: state, nextAttemptAt: nil)
            try await bench.state.record(event)
        }
        func left() async throws -> [EventRecord.Delivery.State?] {
            _ = await bench.services.sweep.run()
            return try await bench.state.events(EventQuery(after: first)).map(\.delivery?.state)
        }
        bench.clock.advance(by: 7 * 24 * 3600)
        #expect(try await left() == [.delivered, .dead])
        bench.clock.advance(by: 1)
        #expect(try await left() == [.dead])
        bench.clock.advance(by: 21 * 24 * 3600 - 1)
        #expect(try await left() == [.dead])
        bench.clock.advance(by: 1)
        #expect(try await left() == [])
    }

    @Test("a blob without a record is set aside when it is too old to be one that is being created")
    func orphans() async throws {
        let bench = ServiceBench(limits: UploadLimits(lifetime: nil))
        let orphan = UploadID.generate(at: bench.clock.now)
        try await bench.storage.create(orphan)
        let kept = try await bench.upload(5, holding: [1])
        #expect(await bench.services.sweep.run().orphansSetAside == 0)
        bench.clock.advance(by: 3601)
        let creating = UploadID.generate(at: bench.clock.now)
        try await bench.storage.create(creating)
        #expect(await bench.services.sweep.run().orphansSetAside == 1)
        #expect(try await Set(bench.storage.list(after: nil, limit: 10)) == [kept, creating])
    }

    @Test("bytes whose removal failed are removed by a later sweep")
    func removalFails() async throws {
        let bench = ServiceBench(limits: UploadLimits(lifetime: nil))
        let id = try await bench.upload(5, holding: [1])
        bench.storage.plan.fail(.remove)
        try await bench.services.uploads.terminate(id)
        #expect(bench.observer.story.suffix(2) == ["terminated", "failed"])
        #expect(try await bench.storage.list(after: nil, limit: 10) == [id])
        bench.clock.advance(by: 3601)
        #expect(await bench.services.sweep.run().orphansRemoved == 1)
        #expect(try await bench.storage.list(after: nil, limit: 10) == [])
    }

    @Test("a failing step of the sweep is reported and does not stop the others")
    func sweepFailures() async throws {
        let bench = ServiceBench()
        _ = try await bench.upload(5)
        bench.clock.advance(by: 3601)
        bench.state.plan.fail(.uploads)
        bench.storage.plan.fail(.list)
        bench.state.plan.fail(.forgetEnded)
        bench.state.plan.fail(.forgetRecords)
        let report = await bench.services.sweep.run()
        #expect(report.expired == 1)
        #expect(report.failures == 4)
        #expect(bench.observer.story.filter { $0 == "failed" }.count == 4)
    }

    @Test("a sweep forgets records of dialects that have expired, even if it cannot forget uploads")
    func expiredRecords() async throws {
        let bench = ServiceBench()
        let now = bench.clock.now
        for (key, seconds) in [("short", 10), ("long", 11), ("lasting", nil)] as [(String, TimeInterval?)] {
            let record = DialectRecord(
                kind: "test session",
                key: key,
                text: "{}",
                createdAt: now,
                expiresAt: seconds.map(now.addingTimeInterval)
            )
            #expect(try await bench.state.insert(record, at: now))
        }
        bench.clock.advance(by: 10.5)
        bench.state.plan.fail(.forgetEnded)
        #expect(await bench.services.sweep.run().failures == 1)
        let left = try await bench.state.records("test session", prefix: "", after: nil, limit: 9)
        #expect(left.map(\.key) == ["lasting", "long"])
    }

    @Test("lists are paged, with current offsets, and query the storage once for each page")
    func list() async throws {
        let bench = ServiceBench()
        var ids: [UploadID] = []
        for number in 0..<5 {
            bench.clock.advance(by: 1)
            ids.insert(try await bench.upload(2, holding: Array(repeating: 1, count: number % 3)), at: 0)
        }
        let first = try await bench.services.uploads.list(UploadQuery(limit: 3))
        let second = try await bench.services.uploads.list(UploadQuery(before: first.last?.id, limit: 3))
        #expect((first + second).map(\.id) == ids)
        #expect((first + second).map(\.offset) == [1, 0, 2, 1, 0])
        #expect(bench.storage.plan.calls(of: .currentLengths) == 2)
        #expect(bench.storage.plan.calls(of: .currentLength) == 0)
    }

    @Test("a storage that fails hides no upload from the list, and is asked once")
    func listWithoutStorage() async throws {
        let bench = ServiceBench()
        for _ in 0..<3 { _ = try await bench.upload(2, holding: [1]) }
        bench.storage.plan.fail(.currentLengths)
        #expect(try await bench.services.uploads.list(UploadQuery()).map(\.offset) == [0, 0, 0])
        #expect(bench.storage.plan.calls(of: .currentLength) == 0)
        #expect(bench.observer.story.filter { $0 == "failed" }.count == 1)
    }

    @Test("a sweep asks the storage once for the lengths of a page of open uploads")
    func sweepCalls() async throws {
        let bench = ServiceBench()
        for _ in 0..<20 { _ = try await bench.upload(2, holding: [1]) }
        #expect(await bench.services.sweep.run().failures == 0)
        #expect(bench.storage.plan.calls(of: .currentLengths) == 1)
        #expect(bench.storage.plan.calls(of: .currentLength) == 0)
    }

    @Test("a lost blob is reported, and hides no other upload from the list")
    func lostBlob() async throws {
        let bench = ServiceBench()
        let lost = try await bench.upload(5, holding: [1])
        _ = try await bench.upload(5, holding: [1])
        try await bench.storage.remove(lost)
        #expect(try await bench.services.uploads.list(UploadQuery()).map(\.offset).sorted() == [0, 1])
        #expect(await code { try await bench.services.uploads.inspect(lost) } == .storageFailure)
        #expect(await code { try await bench.services.uploads.status(of: lost) } == .storageFailure)
        #expect(bench.observer.story.filter { $0 == "failed" }.count == 3)
        try await bench.services.uploads.terminate(lost)
    }
}
