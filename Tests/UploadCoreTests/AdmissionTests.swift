import Foundation
import SluiceTesting
import Synchronization
import Testing

@testable import UploadCore
@testable import UploadModel

@Suite("Admission before anything is sent", .timeLimit(.minutes(10)))
struct AdmissionTests {
    @Test("what would be refused at creation is refused, and nothing is reserved")
    func admission() async throws {
        let bench = ServiceBench()
        let grant = Grant(id: "g", subject: "dora", maximumBytes: 60, expiresAt: .distantFuture)
        var policy = Policy()
        policy.storedBytes = 100
        try await bench.services.quota.setPolicy(policy, of: Account(.subject, "dora"))
        func code(_ length: Int64) async -> UploadError.Code? {
            await errorCode { () async throws(UploadError) in
                try await bench.services.uploads.checkAdmission(
                    of: NewUpload(dialect: "cos", length: length),
                    under: grant
                )
            }
        }
        for _ in 0..<3 { #expect(await code(60) == nil) }
        if case .tooLarge = await code(61) {} else { Issue.record("61 bytes are more than the grant allows") }
        _ = try await bench.services.uploads.create(NewUpload(dialect: "cos", length: 50), under: grant)
        #expect(await code(50) == nil)
        if case .quotaExceeded = await code(51) {} else { Issue.record("51 bytes are more than the quota has left") }
    }

    /// Rejects uploads of one length, and remembers which it was asked about.
    private final class Hooks: UploadHooks {
        let asked = Mutex<[Int64?]>([])
        let rejected: Int64

        init(rejecting length: Int64) { rejected = length }

        var decidesUploads: Bool { true }

        func wants(_ kind: EventRecord.Kind) -> Bool { false }

        func willCreate(_ upload: Upload) async throws(UploadError) -> CreationChanges {
            asked.withLock { $0.append(upload.length) }
            if upload.length == rejected { throw UploadError(.rejected, "no") }
            return CreationChanges(alias: "ignored")
        }

        func willFinish(_ upload: Upload) async throws(UploadError) {}
        func willTerminate(_ upload: Upload) async throws(UploadError) {}
    }

    @Test("files that go elsewhere are admitted together, the app is asked about each, and the period counts them")
    func elsewhere() async throws {
        let hooks = Hooks(rejecting: 7)
        let state = InMemoryState(clock: ManualClock())
        let services = UploadServices(
            state: state,
            storage: InMemoryStorage(),
            clock: ManualClock(),
            limits: UploadLimits(maximumBytes: 1000, lifetime: 3600),
            observer: RecordingObserver(),
            hooks: hooks
        )
        let grant = Grant(id: "g", subject: "dora", maximumBytes: 60, expiresAt: .distantFuture)
        var policy = Policy()
        policy.storedBytes = 100
        let dora = Account(.subject, "dora")
        try await services.quota.setPolicy(policy, of: dora)
        func code(_ lengths: Int64?...) async -> UploadError.Code? {
            await errorCode { () async throws(UploadError) in
                let files = lengths.map { NewUpload(dialect: "cos", length: $0) }
                _ = try await services.uploads.admitElsewhere(files, under: grant)
            }
        }
        for _ in 0..<2 { #expect(await code(60, 40) == nil) }
        #expect(await code(nil) == nil)
        #expect(hooks.asked.withLock { $0 } == [60, 40, 60, 40, nil])
        if case .quotaExceeded = await code(60, 41) {} else { Issue.record("101 bytes are more than the quota has") }
        if case .tooLarge = await code(1, 61) {} else { Issue.record("61 bytes are more than the grant allows") }
        // The app is asked only about what may be sent.
        #expect(hooks.asked.withLock { $0.count } == 5)
        #expect(await code(1, 7) == .rejected)
        let usage = try #require(try await state.accounts([dora])[dora]?.usage)
        #expect(usage.openUploads == 0 && usage.reservedBytes == 0 && usage.storedBytes == 0)
        #expect(usage.periodUploads == 5 && usage.periodBytes == 200)
    }

    @Test("what goes elsewhere uses up the period, unless it was counted before or is withdrawn in time")
    func period() async throws {
        let bench = ServiceBench()
        let uploads = bench.services.uploads
        let grant = Grant(id: "g", issuer: "key", subject: "dora", expiresAt: .distantFuture)
        let accounts = [Account(.subject, "dora"), Account(.key, "key")]
        var policy = Policy()
        policy.periodUploads = 2
        policy.periodBytes = 100
        try await bench.services.quota.setPolicy(policy, of: accounts[0])
        func used() async throws -> [[Int64]] {
            let records = try await bench.state.accounts(accounts)
            return accounts.map { [records[$0]?.usage.periodUploads ?? 0, records[$0]?.usage.periodBytes ?? 0] }
        }
        func admit(_ length: Int64?, isCounted: Bool = true) async throws(UploadError) -> ElsewhereAdmission {
            let new = NewUpload(dialect: "oss", length: length)
            return try await uploads.admitElsewhere([new], under: grant, isCounted: isCounted)
        }
        let first = try await admit(60)
        #expect(try await used() == [[1, 60], [1, 60]])
        let code = await errorCode { () async throws(UploadError) in _ = try await admit(41) }
        if case .quotaExceeded(let refusal) = code {
            #expect(refusal.measure == .periodBytes)
        } else {
            Issue.record("101 bytes are more than the period has")
        }
        #expect(try await used() == [[1, 60], [1, 60]])
        let again = try await admit(40, isCounted: false)
        try await uploads.withdraw(again)
        _ = try await admit(nil)
        #expect(try await used() == [[2, 60], [2, 60]])
        #expect(await errorCode { () async throws(UploadError) in _ = try await admit(1) } != nil)
        try await uploads.withdraw(first)
        #expect(try await used() == [[1, 0], [1, 0]])
        let late = try await admit(100)
        #expect(try await used() == [[2, 100], [2, 100]])
        // The next period began without it.
        bench.clock.advance(by: 86400)
        _ = try await admit(10)
        try await uploads.withdraw(late)
        #expect(try await used() == [[1, 10], [1, 10]])
    }

    @Test("two that come at the same time cannot both have what is left", arguments: [1, 2, 5])
    func together(left: Int64) async throws {
        let bench = ServiceBench()
        let grant = Grant(id: "g", subject: "dora", expiresAt: .distantFuture)
        var policy = Policy()
        policy.periodUploads = left
        try await bench.services.quota.setPolicy(policy, of: Account(.subject, "dora"))
        bench.state.plan.pause { await Task.yield() }
        let admitted = await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<10 {
                group.addTask {
                    let new = NewUpload(dialect: "oss", length: 1)
                    return (try? await bench.services.uploads.admitElsewhere([new], under: grant)) != nil
                }
            }
            return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
        }
        #expect(admitted == Int(left))
    }
}
