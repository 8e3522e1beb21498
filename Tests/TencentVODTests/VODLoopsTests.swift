import Foundation
import SluiceTesting
import Testing
import UploadCore
import UploadModel

@testable import TencentVOD
@testable import VODKit

@Suite("Background work for VOD applications", .timeLimit(.minutes(10)))
struct VODLoopsTests {
    private let day: TimeInterval = 86_400

    @Test("a session that cannot be read, and one that cannot be removed, keep no other one from being removed")
    func sessions() async throws {
        let bench = try VODBench()
        let signer = try await bench.signer()
        var sessions: [VODSession] = []
        for _ in 0..<4 {
            sessions.append(try await bench.sent(by: signer).session)
            bench.clock.advance(by: 1)
        }
        try await bench.spoil(VODSession.kind, sessions[0].fileID)
        bench.clock.advance(by: 3 * day)
        let failing = FailingRecords(clock: bench.clock) { _ in }
        // Of the second one.
        bench.state.plan.fail(.endRight)
        await #expect(throws: UploadError.self) { try await bench.uploads.removeExpired(failing) }
        #expect(try await bench.keys() == Set(sessions.prefix(2).flatMap(\.files).map(\.key)))
        #expect(failing.count == 2)
        // Neither is tried again at once.
        bench.state.plan.fail(.endRight)
        #expect(try await bench.uploads.removeExpired(failing))
        bench.state.plan.recover()
        bench.clock.advance(by: 2)
        await #expect(throws: UploadError.self) { try await bench.uploads.removeExpired(failing) }
        #expect(try await bench.keys() == Set(sessions[0].files.map(\.key)))
        #expect(failing.count == 1)
    }

    @Test("a younger session than any that has ended is not looked at")
    func younger() async throws {
        let bench = try VODBench()
        let signer = try await bench.signer()
        let made = try await bench.sent(by: signer).session
        try await bench.spoil(VODSession.kind, made.fileID)
        bench.clock.advance(by: day)
        #expect(try await !bench.uploads.removeExpired())
        bench.clock.advance(by: 7200)
        await #expect(throws: UploadError.self) { try await bench.uploads.removeExpired() }
    }

    @Test("media that cannot be read, or whose deletion fails, keeps no other deletion and no session from its end")
    func removals() async throws {
        let bench = try VODBench()
        let signer = try await bench.signer()
        let expired = try await bench.sent(by: signer).session
        var made: [VODSession] = []
        for _ in 0..<120 {
            bench.clock.advance(by: 1)
            made.append(try await bench.committed(VODBench.video, by: signer).session)
            bench.state.plan.fail(.endRight)
            await #expect(throws: UploadError.self) { try await bench.delete(made[made.count - 1]) }
        }
        // More than one page of them.
        for session in made.prefix(110) {
            try await bench.spoil(VODMedia.kind, VODMedia.key(session.fileID, of: session.owner.application))
        }
        bench.clock.advance(by: 3 * day)
        let failing = FailingRecords(clock: bench.clock) { _ in }
        let work = BackgroundWork(failing: failing) { _, _ in }
        // A deletion that fails, too.
        bench.state.plan.fail(.endRight)
        #expect(await work.look([bench.library.finishRemovals, bench.uploads.removeExpired]))
        #expect(try await bench.state.records("tencent removal", prefix: "", after: nil, limit: 1000).count == 111)
        #expect(try await bench.state.record(VODSession.kind, expired.fileID) == nil)
        // Their sessions, too, do not know whose their files are.
        #expect(failing.count == 111 + 110)
        bench.clock.advance(by: 2)
        await #expect(throws: UploadError.self) { try await bench.library.finishRemovals(failing) }
        #expect(failing.count == 110 + 110)
    }

    @Test("an event, and media of an event, that cannot be read keep no other event waiting")
    func events() async throws {
        let bench = try VODBench()
        let signer = try await bench.signer()
        var made: [VODSession] = []
        for _ in 0..<4 {
            made.append(try await bench.committed(VODBench.video, by: signer).session)
            bench.clock.advance(by: 1)
        }
        let media = VODMedia.key(made[1].fileID, of: made[1].owner.application)
        try await bench.spoil(VODEvent.recordKind, "\(made[0].owner.application)/\(made[0].fileID)/NewFileUpload")
        try await bench.spoil(VODMedia.kind, media)
        let failing = FailingRecords(clock: bench.clock) { _ in }
        func look(_ limit: Int, after start: DialectPlace?) async throws -> ClaimedRecords<VODEvents.Claimed> {
            try await bench.events.outbox.claim(after: start, limit: limit, for: 30, failing: failing) {
                (found) throws(UploadError) in
                try await bench.events.facts(of: found.content)
            }
        }
        let found = try await look(1, after: nil)
        #expect(found.claimed.map(\.record.content.fileID) == [made[2].fileID] && found.failure != nil)
        #expect(failing.count == 2)
        let next = try await look(16, after: found.last)
        #expect(next.claimed.map(\.record.content.fileID) == [made[3].fileID] && next.last == nil)
        // Who asks for events gets those that can be read.
        bench.clock.advance(by: 30)
        let application = made[0].owner.application
        let claimed = try await bench.events.claim(of: application, limit: 16, for: 30)
        #expect(claimed.map(\.record.content.fileID) == [made[2].fileID, made[3].fileID])
    }
}

extension VODBench {
    /// Replaces a record by one that cannot be read.
    func spoil(_ kind: String, _ key: String) async throws {
        var record = try #require(try await state.record(kind, key))
        record.text = "[]"
        #expect(try await state.replace(record))
    }
}
