import Bytes
import Foundation
import SluiceTesting
import Testing

@testable import UploadCore
@testable import UploadModel

@Suite("Pairs of state and storage", .timeLimit(.minutes(10)))
struct StoreBindingTests {
    private let clock = ManualClock()
    private let state: InMemoryState
    private let storage = InMemoryStorage()

    init() { state = InMemoryState(clock: clock) }

    private func binding(_ state: InMemoryState? = nil, _ storage: InMemoryStorage? = nil) -> StoreBinding {
        let state = state ?? self.state
        return StoreBinding(state: state, marks: state, storage: storage ?? self.storage)
    }

    private func services(
        _ state: InMemoryState? = nil,
        refusing refusal: UploadError? = nil,
        _ observer: RecordingObserver = RecordingObserver()
    ) -> UploadServices {
        let state = state ?? self.state
        return UploadServices(
            state: state,
            storage: storage,
            clock: clock,
            limits: UploadLimits(lifetime: 3600, orphanAge: 0).patient,
            observer: observer,
            refusing: refusal,
            isSweepApproved: { () async throws(UploadError) in try await state.takeSweepApproval() }
        )
    }

    private var grant: Grant { Grant(id: "key_1", subject: "alice", expiresAt: clock.now.addingTimeInterval(600)) }

    private func upload(_ services: UploadServices, _ bytes: [UInt8] = [1, 2, 3], of length: Int64? = nil) async throws
        -> UploadID
    {
        let new = NewUpload(dialect: "tus", length: length ?? Int64(bytes.count))
        let id = try await services.uploads.create(new, under: grant).id
        _ = try await services.uploads.append(
            to: id,
            at: 0,
            contentLength: Int64(bytes.count),
            expecting: nil,
            from: ArraySource(bytes)
        )
        return id
    }

    @Test("a new pair gets a mark, and each start and each change increments its epoch in both")
    func new() async throws {
        #expect(try await binding().bind() == nil)
        let first = try #require(try await state.storeMark())
        #expect(first.id.utf8.count == 32 && first.epoch == 1)
        #expect(try await storage.storedMark() == first)
        let second = binding()
        #expect(try await second.bind() == nil)
        #expect(try await storage.storedMark()?.epoch == 2)
        _ = try await upload(services())
        try await second.advance()
        try await second.advance()
        let last = StoreMark(id: first.id, epoch: 3)
        #expect(try await state.storeMark() == last)
        #expect(try await storage.storedMark() == last)
    }

    @Test("a pair of a version without marks is bound, even after a crash in between")
    func upgrade() async throws {
        _ = try await upload(services())
        let mark = try await state.ensureStoreMark(StoreMark(id: "a", epoch: 0))
        #expect(try await binding().bind() == nil)
        #expect(try await storage.storedMark() == StoreMark(id: "a", epoch: 1))
        #expect(mark.id == "a")
    }

    @Test("a new state is not a pair with a used storage, whether that has a mark or only blobs")
    func lostState() async throws {
        try await storage.create(UploadID.generate(at: clock.now))
        #expect(try await binding().bind() == .unknownState)
        #expect(try await state.storeMark() == nil)
        #expect(try await storage.storedMark() == nil)
        try await storage.storeMark(StoreMark(id: "a", epoch: 1))
        #expect(try await binding().bind() == .unknownState)
        #expect(try await binding(state, InMemoryStorage()).bind() == nil)
    }

    @Test("state and storage of different gateways are not a pair")
    func otherPair() async throws {
        let other = InMemoryState(clock: clock)
        #expect(try await binding().bind() == nil)
        #expect(try await binding(other, InMemoryStorage()).bind() == nil)
        #expect(try await binding(other, storage).bind() == .otherPair)
    }

    @Test("an unknown storage pairs only with a state without uploads")
    func otherStorage() async throws {
        #expect(try await binding().bind() == nil)
        #expect(try await binding(state, InMemoryStorage()).bind() == nil)
        _ = try await upload(services())
        #expect(try await binding(state, InMemoryStorage()).bind() == .unknownStorage)
        #expect(try await binding().bind() == nil)
    }

    @Test(
        "a state that was copied before anything was recorded is older than the storage, and one with less of an epoch"
    )
    func olderState() async throws {
        let binding = binding()
        #expect(try await binding.bind() == nil)
        let copy = try #require(try await state.storeMark())
        _ = try await upload(services())
        try await binding.advance()
        let restored = InMemoryState(clock: clock)
        _ = try await restored.ensureStoreMark(copy)
        #expect(try await self.binding(restored).bind() == .olderState)
        #expect(try await storage.storedMark()?.epoch == copy.epoch + 1)
    }

    @Test("without a pair, no call and no sweep changes anything, and records can be read")
    func refusal() async throws {
        let id = try await upload(services())
        let open = try await upload(services(), [1], of: 3)
        clock.advance(by: 4000)
        let refusing = services(refusing: StoreMismatch.olderState.refusal)
        try await storage.create(UploadID.generate(at: clock.now))
        let before = try await storage.list(after: nil, limit: 10)
        #expect(await refusing.sweep.run() == SweepReport())
        #expect(await code { try await upload(refusing) } == .unavailable)
        #expect(await code { try await refusing.uploads.terminate(id) } == .unavailable)
        // It has expired, but that is not certain here.
        #expect(await code { try await refusing.uploads.status(of: open) } == .unavailable)
        #expect(await code { try await refusing.uploads.setMetadata(UploadMetadata(), of: id) } == .unavailable)
        #expect(await code { try await refusing.objects.createBucket("b") } == .unavailable)
        #expect(await code { try await refusing.quota.setPolicy(nil, of: Account(.subject, "a")) } == .unavailable)
        #expect(try await refusing.uploads.status(of: id).state == .completed)
        #expect(try await refusing.media.open(id).1.size == 3)
        #expect(try await storage.list(after: nil, limit: 10) == before)
        #expect(try await state.upload(open)?.state == .open)
    }

    // MARK: Sweeping

    @Test(
        "a sweep sets twenty blobs without a record aside, or one in twenty, and asks before it takes more",
        arguments: [(20, 0, true), (21, 0, false), (21, 399, true), (22, 399, false)]
    )
    func suspicious(_ orphans: Int, _ others: Int, _ isAllowed: Bool) async throws {
        let observer = RecordingObserver()
        let services = services(refusing: nil, observer)
        for _ in 0..<others { _ = try await upload(services, []) }
        for _ in 0..<orphans { try await storage.create(UploadID.generate(at: clock.now)) }
        let report = await services.sweep.run()
        #expect(report.orphansSetAside == (isAllowed ? orphans : 0))
        #expect(report.orphansLeft == (isAllowed ? 0 : orphans))
        #expect(try await storage.list(after: nil, limit: 1000).count == others + (isAllowed ? 0 : orphans))
        #expect(
            observer.story.last == "swept \(orphans + others) \(isAllowed ? orphans : 0) \(isAllowed ? 0 : orphans)"
        )
        if isAllowed { return }
        // After the operator has approved it.
        try await state.replaceStoreMark(StoreMark(id: "a", epoch: 1))
        clock.advance(by: 3601)
        #expect(await services.sweep.run().orphansSetAside == orphans)
    }

    @Test("what was set aside is removed after its retention; ended blobs are removed at once, however many")
    func quarantine() async throws {
        let services = services()
        var ended: [UploadID] = []
        for _ in 0..<30 { ended.append(try await upload(services)) }
        for id in ended { _ = try await state.end(id, as: .terminated, at: clock.now) }
        try await storage.create(UploadID.generate(at: clock.now))
        let report = await services.sweep.run()
        #expect(report.orphansRemoved == 30 && report.orphansSetAside == 1 && report.orphansLeft == 0)
        clock.advance(by: 7 * 86_400)
        #expect(await services.sweep.run().orphansRemoved == 0)
        clock.advance(by: 3601)
        #expect(await services.sweep.run().orphansRemoved == 1)
    }

    // MARK: Adopting

    private func adopt(
        _ state: InMemoryState,
        rebuilding isRebuilding: Bool = true,
        trial isTrial: Bool = false
    ) async throws -> StoreAdoption.Outcome {
        try await StoreAdoption(state: state, marks: state, storage: storage, now: clock.now, lifetime: 3600)
            .run(rebuilding: isRebuilding, trial: isTrial)
    }

    @Test("a lost state is rebuilt from the storage: readable media, and uploads that can be resumed")
    func adoptsAll() async throws {
        #expect(try await binding().bind() == nil)
        let (whole, empty) = (try await upload(services()), try await upload(services(), [], of: 5))
        clock.advance(by: 100)
        let fresh = InMemoryState(clock: clock)
        #expect(try await binding(fresh).bind() == .unknownState)
        var expected = StoreAdoption.Outcome()
        expected.mismatch = .unknownState
        (expected.completed, expected.completedBytes, expected.opened) = (1, 3, 1)
        #expect(try await adopt(fresh, trial: true) == expected)
        #expect(try await fresh.uploads(UploadQuery()).isEmpty)
        #expect(try await fresh.storeMark() == nil)
        #expect(try await adopt(fresh) == expected)
        #expect(try await binding(fresh).bind() == nil)
        let services = services(fresh)
        #expect(try await services.media.open(whole).0.createdAt == whole.createdAt)
        #expect(try await services.media.open(whole).1.size == 3)
        let resumed = try await services.uploads.status(of: empty)
        #expect(resumed.state == .open && resumed.offset == 0 && resumed.length == nil && resumed.dialect == "tus")
        #expect(await services.sweep.run().orphansSetAside == 0)
        // A second run has nothing left to do.
        let again = try await adopt(fresh)
        #expect(again.known == 2 && again.completed == 0 && again.mismatch == nil)
    }

    @Test("records newer than a backup are rebuilt, open uploads get time, and missing bytes are listed")
    func adoptsNewer() async throws {
        let binding = binding()
        #expect(try await binding.bind() == nil)
        let copy = try #require(try await state.storeMark())
        let restored = InMemoryState(clock: clock)
        _ = try await restored.ensureStoreMark(copy)
        let (open, missing) = (try await upload(services(), [1], of: 3), UploadID.generate(at: clock.now))
        let record = try #require(try await state.upload(open))
        try await restored.insert(record, consuming: nil)
        try await restored.insert(
            Upload(id: missing, dialect: "tus", subject: nil, principal: "key_1", length: 1, createdAt: clock.now),
            consuming: nil
        )
        let newer = try await upload(services())
        try await binding.advance()
        clock.advance(by: 3000)
        let outcome = try await adopt(restored)
        #expect(outcome.mismatch == .olderState && outcome.known == 1 && outcome.completed == 1)
        #expect(outcome.renewed == 1 && outcome.missing == [missing])
        #expect(try await restored.upload(open)?.expiresAt == clock.now.addingTimeInterval(3600))
        #expect(try await services(restored).media.open(newer).1.size == 3)
        #expect(try await self.binding(restored).bind() == nil)
    }

    @Test("without rebuilding, no records are created, and all unknown blobs are set aside")
    func accepts() async throws {
        #expect(try await binding().bind() == nil)
        for _ in 0..<30 { _ = try await upload(services()) }
        let fresh = InMemoryState(clock: clock)
        #expect(try await adopt(fresh, rebuilding: false).left == 30)
        #expect(try await binding(fresh).bind() == nil)
        #expect(await services(fresh).sweep.run().orphansSetAside == 30)
    }
}
