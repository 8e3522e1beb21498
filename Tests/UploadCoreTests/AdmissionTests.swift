import Foundation
import SluiceTesting
import Synchronization
import Testing

@testable import UploadCore

@Suite("Admission before anything is sent")
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

    @Test("files that go elsewhere are admitted together, then the app is asked about each; nothing is recorded")
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
                try await services.uploads.admitElsewhere(files, under: grant)
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
        #expect(try await state.accounts([dora])[dora]?.usage.openUploads ?? 0 == 0)
        #expect(try await state.accounts([dora])[dora]?.usage.reservedBytes ?? 0 == 0)
    }
}
