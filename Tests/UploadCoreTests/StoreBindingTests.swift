import Bytes
import Foundation
import SluiceTesting
import Testing

@testable import UploadCore

@Suite("State and storage are a pair")
struct StoreBindingTests {
    private let clock = ManualClock()
    private let state: InMemoryState
    private let storage = InMemoryStorage()

    init() { state = InMemoryState(clock: clock) }

    private func binding(_ state: InMemoryState? = nil, _ storage: InMemoryStorage? = nil) -> StoreBinding {
        let state = state ?? self.state
        return StoreBinding(state: state, marks: state, storage: storage ?? self.storage)
    }

    private func service(
        _ state: InMemoryState? = nil,
        refusing refusal: UploadError? = nil,
        _ observer: RecordingObserver = RecordingObserver()
    ) -> UploadService {
        let state = state ?? self.state
        return UploadService(
            state: state,
            storage: storage,
            clock: clock,
            limits: UploadLimits(lifetime: 3600, orphanAge: 0),
            observer: observer,
            refusing: refusal,
            isSweepApproved: { () async throws(UploadError) in try await state.takeSweepApproval() }
        )
    }

    private var grant: Grant { Grant(id: "key_1", subject: "alice", expiresAt: clock.now.addingTimeInterval(600)) }

    private func upload(_ service: UploadService, _ bytes: [UInt8] = [1, 2, 3], of length: Int64? = nil) async throws
        -> UploadID
    {
        let new = NewUpload(dialect: "tus", length: length ?? Int64(bytes.count))
        let id = try await service.create(new, under: grant).id
        _ = try await service.append(
            to: id,
            at: 0,
            contentLength: Int64(bytes.count),
            expecting: nil,
            from: ArraySource(bytes)
        )
        return id
    }

    @Test("a new pair gets a mark, and each start and each change lets its epoch grow in both")
    func new() async throws {
        #expect(try await binding().bind() == nil)
        let first = try #require(try await state.storeMark())
        #expect(first.id.utf8.count == 32 && first.epoch == 1)
        #expect(try await storage.storedMark() == first)
        let second = binding()
        #expect(try await second.bind() == nil)
        #expect(try await storage.storedMark()?.epoch == 2)
        _ = try await upload(service())
        try await second.advance()
        try await second.advance()
        let last = StoreMark(id: first.id, epoch: 3)
        #expect(try await state.storeMark() == last)
        #expect(try await storage.storedMark() == last)
    }

    @Test("a pair of a version without marks is bound, and a crash on the way does no harm")
    func upgrade() async throws {
        _ = try await upload(service())
        let mark = try await state.ensureStoreMark(StoreMark(id: "a", epoch: 0))
        #expect(try await binding().bind() == nil)
        #expect(try await storage.storedMark() == StoreMark(id: "a", epoch: 1))
        #expect(mark.id == "a")
    }

    @Test("a state that was lost is no pair with the storage, whether that has a mark or only blobs")
    func lostState() async throws {
        try await storage.create(UploadID.generate(at: clock.now))
        #expect(try await binding().bind() == .unknownState)
        #expect(try await state.storeMark() == nil)
        #expect(try await storage.storedMark() == nil)
        try await storage.storeMark(StoreMark(id: "a", epoch: 1))
        #expect(try await binding().bind() == .unknownState)
        #expect(try await binding(state, InMemoryStorage()).bind() == nil)
    }

    @Test("a state and a storage of different gateways are no pair")
    func otherPair() async throws {
        let other = InMemoryState(clock: clock)
        #expect(try await binding().bind() == nil)
        #expect(try await binding(other, InMemoryStorage()).bind() == nil)
        #expect(try await binding(other, storage).bind() == .otherPair)
    }

    @Test("a storage that was never seen is one for a state without uploads only")
    func otherStorage() async throws {
        #expect(try await binding().bind() == nil)
        #expect(try await binding(state, InMemoryStorage()).bind() == nil)
        _ = try await upload(service())
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
        _ = try await upload(service())
        try await binding.advance()
        let restored = InMemoryState(clock: clock)
        _ = try await restored.ensureStoreMark(copy)
        #expect(try await self.binding(restored).bind() == .olderState)
        #expect(try await storage.storedMark()?.epoch == copy.epoch + 1)
    }

    @Test("where they are no pair nothing is changed, by no call and no sweep, and what is known is read")
    func refusal() async throws {
        let id = try await upload(service())
        let open = try await upload(service(), [1], of: 3)
        clock.advance(by: 4000)
        let refusing = service(refusing: StoreMismatch.olderState.refusal)
        try await storage.create(UploadID.generate(at: clock.now))
        let before = try await storage.list(after: nil, limit: 10)
        #expect(await refusing.sweep() == SweepReport())
        #expect(await code { try await upload(refusing) } == .unavailable)
        #expect(await code { try await refusing.terminate(id) } == .unavailable)
        // Its time is over, but who knows.
        #expect(await code { try await refusing.status(of: open) } == .unavailable)
        #expect(await code { try await refusing.setMetadata(UploadMetadata(), of: id) } == .unavailable)
        #expect(await code { try await refusing.createBucket("b") } == .unavailable)
        #expect(await code { try await refusing.setPolicy(nil, of: Account(.subject, "a")) } == .unavailable)
        #expect(try await refusing.status(of: id).state == .completed)
        #expect(try await refusing.open(id).1.size == 3)
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
        let service = service(refusing: nil, observer)
        for _ in 0..<others { _ = try await upload(service, []) }
        for _ in 0..<orphans { try await storage.create(UploadID.generate(at: clock.now)) }
        let report = await service.sweep()
        #expect(report.orphansSetAside == (isAllowed ? orphans : 0))
        #expect(report.orphansLeft == (isAllowed ? 0 : orphans))
        #expect(try await storage.list(after: nil, limit: 1000).count == others + (isAllowed ? 0 : orphans))
        #expect(
            observer.story.last == "swept \(orphans + others) \(isAllowed ? orphans : 0) \(isAllowed ? 0 : orphans)"
        )
        if isAllowed { return }
        // Once somebody has said so.
        try await state.replaceStoreMark(StoreMark(id: "a", epoch: 1))
        clock.advance(by: 3601)
        #expect(await service.sweep().orphansSetAside == orphans)
    }

    @Test("what was set aside is removed after its days; what has ended is removed at once, however much it is")
    func quarantine() async throws {
        let service = service()
        var ended: [UploadID] = []
        for _ in 0..<30 { ended.append(try await upload(service)) }
        for id in ended { _ = try await state.end(id, as: .terminated, at: clock.now) }
        try await storage.create(UploadID.generate(at: clock.now))
        let report = await service.sweep()
        #expect(report.orphansRemoved == 30 && report.orphansSetAside == 1 && report.orphansLeft == 0)
        clock.advance(by: 7 * 86_400)
        #expect(await service.sweep().orphansRemoved == 0)
        clock.advance(by: 3601)
        #expect(await service.sweep().orphansRemoved == 1)
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

    @Test("a lost state is made anew from what is stored: media that can be read, and uploads that go on")
    func adoptsAll() async throws {
        #expect(try await binding().bind() == nil)
        let (whole, empty) = (try await upload(service()), try await upload(service(), [], of: 5))
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
        let service = service(fresh)
        #expect(try await service.open(whole).0.createdAt == whole.createdAt)
        #expect(try await service.open(whole).1.size == 3)
        let resumed = try await service.status(of: empty)
        #expect(resumed.state == .open && resumed.offset == 0 && resumed.length == nil && resumed.dialect == "tus")
        #expect(await service.sweep().orphansSetAside == 0)
        // Again: nothing is left to do.
        let again = try await adopt(fresh)
        #expect(again.known == 2 && again.completed == 0 && again.mismatch == nil)
    }

    @Test("records that are newer than a backup are made anew, open uploads get time, and what is missing is named")
    func adoptsNewer() async throws {
        let binding = binding()
        #expect(try await binding.bind() == nil)
        let copy = try #require(try await state.storeMark())
        let restored = InMemoryState(clock: clock)
        _ = try await restored.ensureStoreMark(copy)
        let (open, missing) = (try await upload(service(), [1], of: 3), UploadID.generate(at: clock.now))
        let record = try #require(try await state.upload(open))
        try await restored.insert(record, consuming: nil)
        try await restored.insert(
            Upload(id: missing, dialect: "tus", subject: nil, principal: "key_1", length: 1, createdAt: clock.now),
            consuming: nil
        )
        let newer = try await upload(service())
        try await binding.advance()
        clock.advance(by: 3000)
        let outcome = try await adopt(restored)
        #expect(outcome.mismatch == .olderState && outcome.known == 1 && outcome.completed == 1)
        #expect(outcome.renewed == 1 && outcome.missing == [missing])
        #expect(try await restored.upload(open)?.expiresAt == clock.now.addingTimeInterval(3600))
        #expect(try await service(restored).open(newer).1.size == 3)
        #expect(try await self.binding(restored).bind() == nil)
    }

    @Test("what is only accepted gets no records, and is set aside however much it is")
    func accepts() async throws {
        #expect(try await binding().bind() == nil)
        for _ in 0..<30 { _ = try await upload(service()) }
        let fresh = InMemoryState(clock: clock)
        #expect(try await adopt(fresh, rebuilding: false).left == 30)
        #expect(try await binding(fresh).bind() == nil)
        #expect(await service(fresh).sweep().orphansSetAside == 30)
    }
}
