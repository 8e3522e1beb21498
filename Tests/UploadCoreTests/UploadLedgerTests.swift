import Foundation
import SluiceTesting
import Synchronization
import Testing

@testable import UploadCore
@testable import UploadModel

@Suite("The ledger of stored bytes and bytes in flight", .timeLimit(.minutes(10)))
struct UploadLedgerTests {
    private let clock = ManualClock()
    private let state: FaultyState
    private let alice = Account(.subject, "alice")

    init() { state = FaultyState(InMemoryState(clock: clock)) }

    private func ledger(maximumBytes: Int64 = 1000, of state: (any UploadLedger.Records & AccountRecords)? = nil)
        -> UploadLedger
    {
        let limits = UploadLimits(maximumBytes: maximumBytes)
        let state = state ?? self.state
        return UploadLedger(
            state: state,
            policies: PolicyCache(state: state, defaults: limits.policies),
            // Long, because waits are long on a busy machine.
            turns: TurnTable(timeout: .seconds(600)),
            limits: limits,
            clock: clock
        )
    }

    private func allow(storedBytes: Int64) async throws {
        var policy = Policy()
        policy.storedBytes = storedBytes
        try await state.setPolicy(policy, of: alice, at: clock.now)
    }

    private func upload(maximumBytes: Int64? = nil, takesParts: Bool = false) async throws -> Upload {
        var upload = Upload(
            id: UploadID.generate(at: clock.now),
            dialect: "objects",
            subject: "alice",
            principal: "key_1",
            length: nil,
            createdAt: clock.now
        )
        upload.maximumBytes = maximumBytes
        upload.takesParts = takesParts
        try await state.insert(upload, consuming: nil)
        return upload
    }

    @discardableResult
    private func record(_ coming: UploadLedger.ComingPart, _ size: Int64, in ledger: UploadLedger) async throws
        -> PartRecord?
    {
        let part = PartRecord(
            number: coming.number,
            size: size,
            md5: [UInt8](repeating: 0, count: 16),
            crc64: 0,
            location: "\(coming.number)-\(size)",
            storedAt: clock.now
        )
        return try await ledger.record(part, coming)
    }

    private func reserved() async throws -> Int64? { try await state.accounts([alice])[alice]?.usage.reservedBytes }

    // MARK: Parts

    @Test("a part counts once while it is being recorded")
    func recording() async throws {
        let ledger = ledger()
        let upload = try await upload(maximumBytes: 100, takesParts: true)
        let first = try await ledger.admit(60, as: 1, of: upload)
        let (isRecording, isAdmitted) = (Gate(), Gate())
        state.plan.before(.putPart) {
            await isRecording.open()
            await isAdmitted.pass()
        }
        async let recorded = record(first, 60, in: ledger)
        await isRecording.pass()
        async let second = ledger.admit(40, as: 2, of: upload)
        while ledger.turns.waiterCount(of: upload.id) == 0 { await Task.yield() }
        await isAdmitted.open()
        #expect(try await recorded == nil)
        ledger.giveUp(try await second)
        #expect(await code { try await ledger.admit(41, as: 2, of: upload) } == .tooLarge(limit: 100))
        // A recorded part is not given up.
        ledger.giveUp(first)
        #expect(await code { try await ledger.admit(41, as: 2, of: upload) } == .tooLarge(limit: 100))
    }

    @Test("a part that replaces a recorded one counts only by the difference")
    func replacing() async throws {
        let ledger = ledger()
        let upload = try await upload(maximumBytes: 100, takesParts: true)
        try await record(ledger.admit(60, as: 1, of: upload), 60, in: ledger)
        let again = try await ledger.admit(80, as: 1, of: upload)
        #expect(again.stored?.size == 60)
        // A smaller one with the same number frees nothing while the other may be the last to arrive.
        let smaller = try await ledger.admit(10, as: 1, of: upload)
        let second = try await ledger.admit(20, as: 2, of: upload)
        #expect(await code { try await ledger.admit(1, as: 3, of: upload) } == .tooLarge(limit: 100))
        #expect(try await record(again, 80, in: ledger)?.size == 60)
        #expect(await code { try await ledger.admit(1, as: 3, of: upload) } == .tooLarge(limit: 100))
        try await record(second, 20, in: ledger)
        #expect(await code { try await ledger.admit(1, as: 3, of: upload) } == .tooLarge(limit: 100))
        #expect(try await record(smaller, 10, in: ledger)?.size == 80)
        ledger.giveUp(try await ledger.admit(70, as: 3, of: upload))
        #expect(await code { try await ledger.admit(71, as: 3, of: upload) } == .tooLarge(limit: 100))
    }

    @Test("of two parts with one number, the second counts only by the difference once the first is stored")
    func sameNumber() async throws {
        let ledger = ledger()
        let upload = try await upload(maximumBytes: 100, takesParts: true)
        let first = try await ledger.admit(60, as: 1, of: upload)
        let second = try await ledger.admit(70, as: 1, of: upload)
        #expect(await code { try await ledger.admit(31, as: 2, of: upload) } == .tooLarge(limit: 100))
        try await record(first, 60, in: ledger)
        ledger.giveUp(try await ledger.admit(30, as: 2, of: upload))
        #expect(await code { try await ledger.admit(31, as: 2, of: upload) } == .tooLarge(limit: 100))
        try await record(second, 70, in: ledger)
        ledger.giveUp(try await ledger.admit(30, as: 2, of: upload))
    }

    @Test("parts that another process stores count, too")
    func sharedParts() async throws {
        let state = InMemoryState(clock: clock, sharesParts: true)
        let (here, there) = (ledger(of: state), ledger(of: state))
        let upload = try await upload(maximumBytes: 100, takesParts: true)
        try await state.insert(upload, consuming: nil)
        try await record(here.admit(60, as: 1, of: upload), 60, in: here)
        try await record(there.admit(30, as: 2, of: upload), 30, in: there)
        #expect(await code { try await here.admit(11, as: 3, of: upload) } == .tooLarge(limit: 100))
        here.giveUp(try await here.admit(10, as: 3, of: upload))
    }

    @Test("concurrent parts share one limit, of their upload or of their account", arguments: [true, false])
    func parts(limitsUpload: Bool) async throws {
        let ledger = ledger()
        if !limitsUpload { try await allow(storedBytes: 100) }
        let upload = try await upload(maximumBytes: limitsUpload ? 100 : nil, takesParts: true)
        let admitted = await withTaskGroup(of: Bool.self) { group in
            for number in 1...20 {
                group.addTask {
                    await code {
                        let coming = try await ledger.admit(10, as: number, of: upload)
                        if number % 2 == 0 { try await record(coming, 10, in: ledger) }
                    } == nil
                }
            }
            return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(admitted == 10)
        if !limitsUpload { #expect(try await reserved() == 100) }
    }

    @Test("the sizes of stored parts are summed once, and again only after a restart or an unknown outcome")
    func sums() async throws {
        let upload = try await upload(maximumBytes: 10_000, takesParts: true)
        var ledger = ledger()
        let limited = UploadLimits(maximumBytes: 20_000)
        func sums() -> Int { state.plan.calls(of: .partBytes) }
        func put(_ number: Int, _ size: Int64) async throws {
            let coming = try await ledger.admit(size, as: number, of: upload)
            defer { ledger.giveUp(coming) }
            try await record(coming, size, in: ledger)
        }
        ledger = self.ledger(maximumBytes: limited.maximumBytes)
        for number in 1...1000 { try await put(number, 9) }
        // Replaced parts count by the difference, up and down.
        for number in 1...500 { try await put(number, number % 2 == 0 ? 10 : 8) }
        #expect(sums() == 1)
        #expect(state.plan.calls(of: .objectParts) == 0)
        #expect(await code { try await put(1001, 1001) } == .tooLarge(limit: 10_000))
        ledger.giveUp(try await ledger.admit(1000, as: 1001, of: upload))

        ledger = self.ledger(maximumBytes: limited.maximumBytes)
        try await put(1001, 900)
        #expect(sums() == 2)
        // It was recorded, but the response was lost.
        state.plan.lose(.putPart, with: UploadError(.unavailable, "lost"))
        #expect(await code { try await put(1002, 60) } == .unavailable)
        #expect(await code { try await put(1003, 41) } == .tooLarge(limit: 10_000))
        #expect(sums() == 3)
        try await put(1003, 40)
        #expect(try await state.partBytes(of: upload.id) == 10_000)
    }

    @Test("a part without a limit takes no turn and reads nothing")
    func unlimited() async throws {
        let ledger = ledger()
        let upload = try await upload(takesParts: true)
        // The policies are known for a second.
        _ = try await ledger.effectiveLimits(for: upload.accounts)
        try await ledger.turns.withTurn(at: upload.id) { () async throws(UploadError) in
            for number in 1...5 {
                let coming = try await ledger.admit(10, as: number, of: upload)
                do { try await record(coming, 10, in: ledger) } catch { throw UploadError(.busy, "\(error)") }
            }
        }
        #expect(state.plan.calls(of: .putPart) == 5)
        for read in [FaultyState.Operation.upload, .objectPart, .objectParts, .partBytes] {
            #expect(state.plan.calls(of: read) == 0)
        }
    }

    @Test("parts that were recorded while no limit applied count when one does again")
    func endingLimit() async throws {
        let ledger = ledger()
        let upload = try await upload(takesParts: true)
        var limited = upload
        limited.maximumBytes = 100
        try await record(ledger.admit(60, as: 1, of: limited), 60, in: ledger)
        try await record(ledger.admit(30, as: 2, of: upload), 30, in: ledger)
        let later = limited
        #expect(await code { try await ledger.admit(11, as: 3, of: later) } == .tooLarge(limit: 100))
        ledger.giveUp(try await ledger.admit(10, as: 3, of: later))
    }

    @Test("a limit that begins while a part is being recorded counts the part once")
    func beginningLimit() async throws {
        let upload = try await upload(takesParts: true)
        let ledger = ledger()
        let first = try await ledger.admit(60, as: 1, of: upload)
        let (isRecording, goesOn) = (Gate(), Gate())
        state.plan.before(.putPart) {
            await isRecording.open()
            await goesOn.pass()
        }
        async let recorded = record(first, 60, in: ledger)
        await isRecording.pass()
        var limited = upload
        limited.maximumBytes = 100
        let later = limited
        let isAdmitted = Mutex(false)
        async let second = {
            defer { isAdmitted.withLock { $0 = true } }
            return try await ledger.admit(40, as: 2, of: later)
        }()
        while !ledger.comingParts.isAwaited(upload.id), !isAdmitted.withLock({ $0 }) { await Task.yield() }
        #expect(!isAdmitted.withLock { $0 })
        await goesOn.open()
        #expect(try await recorded == nil)
        _ = try await second
        #expect(await code { try await ledger.admit(1, as: 3, of: later) } == .tooLarge(limit: 100))
    }

    @Test("a part that is stored without a limit while the others are counted counts once")
    func countingAgain() async throws {
        let upload = try await upload(takesParts: true)
        let ledger = ledger()
        let first = try await ledger.admit(60, as: 1, of: upload)
        // The part with this number was looked for, and the sum was not read yet.
        state.plan.before(.partBytes) { [self] in _ = try? await record(first, 60, in: ledger) }
        var limited = upload
        limited.maximumBytes = 100
        let again = try await ledger.admit(70, as: 1, of: limited)
        #expect(again.stored?.size == 60)
        #expect(state.plan.calls(of: .partBytes) == 2)
        let later = limited
        #expect(await code { try await ledger.admit(31, as: 2, of: later) } == .tooLarge(limit: 100))
        ledger.giveUp(try await ledger.admit(30, as: 2, of: limited))
        #expect(state.plan.calls(of: .partBytes) == 2)
    }

    @Test("parts of sizes near the largest number are refused or admitted without overflow")
    func hugeParts() async throws {
        for limit in [Int64.max, nil] {
            // A new ledger each time, because it caches policies for a second.
            let ledger = ledger(maximumBytes: .max)
            if limit == nil { try await allow(storedBytes: .max) }
            let upload = try await upload(maximumBytes: limit, takesParts: true)
            let first = try await ledger.admit(.max - 1, as: 1, of: upload)
            #expect(await code { try await ledger.admit(2, as: 2, of: upload) } == .tooLarge(limit: .max))
            #expect(await code { try await ledger.admit(-1, as: 2, of: upload) } == .invalidRequest)
            ledger.giveUp(try await ledger.admit(1, as: 2, of: upload))
            ledger.giveUp(try await ledger.admit(.max, as: 1, of: upload))
            ledger.giveUp(first)
        }
        let ledger = ledger(maximumBytes: .max)
        #expect(await code { _ = try ledger.totalLength(of: [.max, 1]) } == .tooLarge(limit: .max))
        #expect(try ledger.totalLength(of: [.max - 1, 1]) == .max)
        #expect(try ledger.totalLength(of: [.max, nil]) == nil)
    }

    // MARK: Reservations

    @Test("a short append returns what it did not use")
    func short() async throws {
        let ledger = ledger()
        try await allow(storedBytes: 100)
        let effectiveLimits = try await ledger.effectiveLimits(for: [alice])
        var first = try await upload()
        let second = try await upload()
        first = try await ledger.reserveStep(of: 1000, for: first, under: effectiveLimits, isWhole: false)
        #expect(first.reservedBytes == 100)
        let refused = await code {
            try await ledger.reserveStep(of: 1000, for: second, under: effectiveLimits, isWhole: false)
        }
        guard case .quotaExceeded? = refused else {
            Issue.record("expected a refusal, got \(String(describing: refused))")
            return
        }
        first.offset = 30
        await ledger.giveBack(first, under: effectiveLimits)
        #expect(try await reserved() == 30)
        let other = try await ledger.reserveStep(of: 1000, for: second, under: effectiveLimits, isWhole: false)
        #expect(other.reservedBytes == 70)
        #expect(try await reserved() == 100)
    }

    @Test("reserving the same bytes twice counts them once, and a declared length covers all of them")
    func twice() async throws {
        let ledger = ledger()
        try await allow(storedBytes: 100)
        let effectiveLimits = try await ledger.effectiveLimits(for: [alice])
        var upload = try await upload()
        for _ in 1...2 {
            upload = try await ledger.reserve(60, for: upload, under: effectiveLimits, isWhole: true)
            #expect(try await reserved() == 60)
        }
        upload.offset = 60
        upload = try await ledger.declare(80, for: upload, 20)
        #expect(try await reserved() == 80)
        #expect(try await ledger.declare(80, for: upload, nil).length == 80)
        #expect(await code { try await ledger.declare(81, for: upload, nil) } == .lengthConflict(length: 80))
        #expect(await code { _ = try ledger.room(in: upload, for: 21) } == .lengthExceeded(length: 80))
        #expect(try ledger.room(in: upload, for: 20) == 20)
    }

    @Test("two concurrent appends under one limit are both counted")
    func appends() async throws {
        let ledger = ledger()
        try await allow(storedBytes: 100)
        let effectiveLimits = try await ledger.effectiveLimits(for: [alice])
        let uploads = [try await upload(), try await upload()]
        let codes = await withTaskGroup(of: UploadError.Code?.self) { group in
            for upload in uploads {
                group.addTask {
                    await code {
                        try await ledger.reserve(60, for: upload, under: effectiveLimits, isWhole: true)
                    }
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(codes.count { $0 == nil } == 1)
        #expect(try await reserved() == 60)
    }

    @Test("a final upload reserves what its parts do not hold")
    func final() async throws {
        let ledger = ledger()
        try await allow(storedBytes: 100)
        let final = try await upload()
        var part = try await upload()
        part.reservedBytes = 30
        var reserved = try await ledger.reserve(50, heldBy: [part], for: final)
        #expect(reserved.reservedBytes == 20)
        #expect(try await self.reserved() == 20)
        part.reservedBytes = .max
        reserved = try await ledger.reserve(50, heldBy: [part, part], for: reserved)
        #expect(reserved.reservedBytes == 0)
    }

    @Test("offsets and steps near the largest number do not overflow")
    func hugeSteps() async throws {
        let ledger = ledger(maximumBytes: .max)
        try await allow(storedBytes: .max)
        let effectiveLimits = try await ledger.effectiveLimits(for: [alice])
        var upload = try await upload()
        upload.offset = .max - 3
        upload.reservedBytes = 0
        #expect(try ledger.room(in: upload, for: 3) == 3)
        #expect(await code { _ = try ledger.room(in: upload, for: 4) } == .tooLarge(limit: .max))
        upload = try await ledger.reserveStep(of: .max, for: upload, under: effectiveLimits, isWhole: true)
        #expect(upload.reservedBytes == .max)
        // Nothing is left for others.
        let other = try await self.upload()
        let refused = await code { try await ledger.reserve(1, for: other, under: effectiveLimits, isWhole: true) }
        #expect(refused != nil)
    }
}

extension UploadLedger {
    /// Admits a part whose number has no stored part, as far as its request knows.
    fileprivate func admit(_ size: Int64, as number: Int, of upload: Upload) async throws(UploadError) -> ComingPart {
        try await admit(size, as: number, of: upload, replacing: nil)
    }
}
