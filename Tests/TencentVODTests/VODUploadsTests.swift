import Bytes
import Digests
import Foundation
import ObjectGrants
import Signing
import SluiceTesting
import Synchronization
import Testing
import UploadCore
import UploadModel

@testable import TencentVOD
@testable import VODKit

@Suite("Sessions of VOD clients", .timeLimit(.minutes(10)))
struct VODUploadsTests {
    private let day: TimeInterval = 86_400

    // MARK: One-time signatures

    @Test("of requests with one signature at once, one begins a session, and the others leave none")
    func race() async throws {
        let bench = try VODBench()
        let signer = try await bench.oneTimeSigner()
        bench.state.plan.pause { for _ in 0..<5 { await Task.yield() } }
        let codes = try await withThrowingTaskGroup(of: VODFailure.Code?.self) { group in
            for _ in 0..<50 {
                group.addTask {
                    try await bench.code { _ = try await bench.uploads.begin(VODBench.video, region: nil, by: signer) }
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(codes.count { $0 == nil } == 1 && codes.count { $0 == .signatureUsed } == 49)
        #expect(try await bench.count(VODSession.kind) == 1)
    }

    @Test("wherever the gateway dies while a session begins, the signature is either unused or has its session")
    func crashWhileBeginning() async throws {
        var sawFailure = false
        for calls in 0..<40 {
            let bench = try VODBench()
            let signer = try await bench.oneTimeSigner()
            let (first, isOver) = await bench.dying(afterCalls: calls) {
                try await bench.uploads.begin(VODBench.video, region: nil, by: signer)
            }
            let used = try await bench.state.record("tencent signature", signer.id)
            let second = try await bench.code {
                _ = try await bench.uploads.begin(VODBench.video, region: nil, by: signer)
            }
            #expect(second == (used == nil ? nil : .signatureUsed), "\(calls)")
            if let used { #expect(try await bench.state.record(VODSession.kind, used.text) != nil, "\(calls)") }
            if first == nil { sawFailure = true }
            if isOver { break }
            #expect(calls < 39)
        }
        #expect(sawFailure)
    }

    @Test("a signature whose consumption was recorded although the state reported a failure begins its session")
    func lostResponse() async throws {
        let bench = try VODBench()
        let signer = try await bench.oneTimeSigner()
        bench.state.plan.lose(.applyChanges, with: UploadError(.storageFailure, "lost"))
        let applied = try await bench.sent(VODBench.video, by: signer)
        _ = try await bench.uploads.commit(applied.sessionKey, by: signer)
        #expect(try await bench.code { _ = try await bench.sent(by: signer) } == .signatureUsed)
    }

    @Test("a one-time signature is remembered until it has expired")
    func remembered() async throws {
        let bench = try VODBench()
        let text = try bench.signature { $0.oneTimeValid = true }
        func code() async throws -> VODFailure.Code? {
            try await bench.code {
                let signer = try await bench.check.verify(text, at: bench.clock.now)
                _ = try await bench.uploads.begin(VODBench.video, region: nil, by: signer)
            }
        }
        #expect(try await code() == nil)
        bench.clock.advance(by: Double(TencentUploadSignature.maximumLifetime) - 1)
        try await bench.state.forgetRecords(expiredBefore: bench.clock.now)
        #expect(try await code() == .signatureUsed)
        bench.clock.advance(by: 1)
        #expect(try await code() == .signatureExpired)
        bench.clock.advance(by: 3600)
        try await bench.state.forgetRecords(expiredBefore: bench.clock.now)
        #expect(try await bench.count("tencent signature") == 0)
    }

    // MARK: What one user may begin

    @Test("a user has a bounded number of sessions that were not committed, and others have theirs")
    func begunByOneUser() async throws {
        let bench = try VODBench()
        let signer = try await bench.signer()
        let first = try await bench.sent(by: signer)
        let user = try #require(first.session.user)
        for number in 1..<BegunUploads.maximum {
            let record = DialectRecord(
                kind: "tencent begun",
                key: BegunUploads.key("\(number)", of: user),
                text: "{}",
                createdAt: bench.clock.now,
                expiresAt: bench.clock.now + day
            )
            #expect(try await bench.state.insert(record, at: bench.clock.now))
        }
        func begin(_ signer: VODSigner) async throws -> VODFailure.Code? {
            try await bench.code { _ = try await bench.uploads.begin(VODBench.video, region: nil, by: signer) }
        }
        #expect(try await begin(signer) == .tooManyRequests)
        #expect(try await bench.count(VODSession.kind) == 1)
        #expect(try await begin(try await bench.signer { $0.subject = "eve" }) == nil)
        #expect(try await begin(try await bench.signer { $0.subject = nil }) == nil)
        var server = signer
        server.serverLimits = KeyLimits()
        #expect(try await begin(server) == nil)
        // What is sent makes room for one more, and no more.
        _ = try await bench.uploads.commit(first.sessionKey, by: signer)
        #expect(try await begin(signer) == nil)
        #expect(try await begin(signer) == .tooManyRequests)
        bench.clock.advance(by: day)
        #expect(try await begin(signer) == nil)
    }

    @Test("a session that ends without a commit no longer counts, nor one whose signature was used meanwhile")
    func begunAndEnded() async throws {
        let bench = try VODBench()
        let once = try await bench.oneTimeSigner()
        bench.state.plan.pause { for _ in 0..<5 { await Task.yield() } }
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<10 {
                group.addTask { _ = try? await bench.uploads.begin(VODBench.video, region: nil, by: once) }
            }
        }
        #expect(try await bench.count("tencent begun") == 1)
        try await bench.cleanUp()
        #expect(try await bench.count("tencent begun") == 0)
    }

    @Test("wherever the gateway dies while a session begins or ends, nothing counts that is no session")
    func begunAndDied() async throws {
        for isOneTime in [false, true] {
            try await VODBench.afterEachCall { bench, calls in
                let signer = try await isOneTime ? bench.oneTimeSigner() : bench.signer()
                let (first, isOver) = await bench.dying(afterCalls: calls) {
                    try await bench.uploads.begin(VODBench.video, region: nil, by: signer)
                }
                #expect(try await bench.count("tencent begun") <= bench.count(VODSession.kind), "\(calls)")
                if first != nil { #expect(try await bench.count("tencent begun") == 1) }
                try await bench.cleanUp()
                #expect(try await bench.count("tencent begun") == 0, "\(calls)")
                return isOver
            }
        }
        try await VODBench.afterEachCall { bench, calls in
            _ = try await bench.sent(by: try await bench.signer())
            bench.clock.advance(by: 3 * day)
            let (_, isOver) = await bench.dying(afterCalls: calls) { try await bench.uploads.removeExpired() }
            #expect(try await bench.count("tencent begun") <= bench.count(VODSession.kind), "\(calls)")
            try await bench.cleanUp()
            #expect(try await bench.count("tencent begun") == 0, "\(calls)")
            return isOver
        }
    }

    @Test("a session that one user may not begin any more leaves nothing, also if the state fails")
    func refusedSession() async throws {
        for operation in [FaultyState.Operation.applyChanges, .dialectRecords] {
            let bench = try VODBench()
            bench.state.plan.fail(operation, onCall: 1)
            let signer = try await bench.signer()
            await #expect(throws: VODError.self) {
                try await bench.uploads.begin(VODBench.video, region: nil, by: signer)
            }
            #expect(try await bench.count(VODSession.kind) == 0, "\(operation)")
            #expect(try await bench.count("tencent begun") == 0, "\(operation)")
        }
    }

    // MARK: Committing

    @Test("wherever the gateway dies in a commit, the next one makes the media, once and with all files")
    func crashWhileCommitting() async throws {
        try await VODBench.afterEachCall { bench, calls in
            let signer = try await bench.signer()
            let applied = try await bench.sent(by: signer)
            let (first, isOver) = await bench.dying(afterCalls: calls) {
                try await bench.uploads.commit(applied.sessionKey, by: signer)
            }
            let second = try await bench.uploads.commit(applied.sessionKey, by: signer)
            if let first { #expect(first.media == second.media) }
            #expect(second.media.fileID == applied.session.fileID)
            #expect(try await bench.count(VODMedia.kind) == 1)
            // The end of the session takes nothing away.
            bench.clock.advance(by: 3 * day)
            try await bench.uploads.removeExpired()
            #expect(try await bench.keys() == Set(applied.session.files.map(\.key)), "\(calls)")
            #expect(try await bench.count(VODSession.kind) == 0)
            return isOver
        }
    }

    @Test("a commit whose record was stored although the state reported a failure can be repeated")
    func lostCommit() async throws {
        let bench = try VODBench()
        let signer = try await bench.signer()
        let applied = try await bench.sent(by: signer)
        bench.state.plan.lose(.applyChanges, with: UploadError(.storageFailure, "lost"))
        await #expect(throws: VODError.self) { try await bench.uploads.commit(applied.sessionKey, by: signer) }
        let media = try await bench.uploads.commit(applied.sessionKey, by: signer).media
        #expect(media.fileID == applied.session.fileID)
        #expect(try await bench.count(VODMedia.kind) == 1)
    }

    @Test("commits at once make one media")
    func commitsAtOnce() async throws {
        let bench = try VODBench()
        let signer = try await bench.signer()
        let applied = try await bench.sent(by: signer)
        bench.state.plan.pause { await Task.yield() }
        let found = try await withThrowingTaskGroup(of: VODMedia.self) { group in
            for _ in 0..<20 {
                group.addTask { try await bench.uploads.commit(applied.sessionKey, by: signer).media }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(found.count == 20 && Set(found.map(\.fileID)).count == 1)
        #expect(try await bench.count(VODMedia.kind) == 1)
    }

    // MARK: What a commit ends

    /// The code of an error of the core; `nil` if there is none.
    private func refusal(_ body: () async throws -> Void) async throws -> UploadError.Code? {
        do {
            try await body()
            return nil
        } catch let error as UploadError {
            return error.code
        }
    }

    @Test("after a commit the certificates of its session store nothing, and repeat what they stored")
    func endOfCertificates() async throws {
        let bench = try VODBench()
        let signer = try await bench.signer()
        let applied = try await bench.uploads.begin(VODBench.both, region: nil, by: signer)
        let session = applied.session
        // Until then a client can send a file again.
        try await bench.send([1, 1, 1], as: session.video, of: session, by: signer)
        try await bench.send([1, 2, 3], as: session.video, of: session, by: signer)
        try await bench.send([1, 2], as: session.cover, of: session, by: signer)
        let open = try await bench.beginParts(session.video, of: session, by: signer)
        let media = try await bench.uploads.commit(applied.sessionKey, by: signer).media
        let names = session.objectNames
        let stored = try await bench.services.objects.object(names[0])
        for bytes in [[3, 2, 1], [], [1, 2, 3, 4]] as [[UInt8]] {
            for file in session.files {
                let code = try await refusal { try await bench.send(bytes, as: file, of: session, by: signer) }
                #expect(code == .conditionFailed)
            }
        }
        #expect(try await bench.services.uploads.recorded(open.id).state == .terminated)
        let another = try await refusal { _ = try await bench.beginParts(session.video, of: session, by: signer) }
        #expect(another == .conditionFailed)
        // The response to it was lost.
        let repeated = try await bench.send([1, 2, 3], as: session.video, of: session, by: signer)
        #expect(repeated.id == stored?.id)
        #expect(try await bench.services.objects.object(names[0]) == stored)
        #expect(try await bench.uploads.commit(applied.sessionKey, by: signer).media == media)

        #expect(try await bench.library.delete(media.fileID, of: media.owner.application) { _ in true })
        for bytes in [[1, 2, 3], [3, 2, 1]] as [[UInt8]] {
            let code = try await refusal { try await bench.send(bytes, as: session.video, of: session, by: signer) }
            #expect(code == .conditionFailed)
        }
        #expect(try await bench.keys().isEmpty)
    }

    @Test("a request that is under way at a commit changes nothing after it")
    func underWay() async throws {
        let bench = try VODBench()
        let signer = try await bench.signer()
        let applied = try await bench.uploads.begin(VODBench.video, region: nil, by: signer)
        let session = applied.session
        try await bench.send([1, 2, 3], as: session.video, of: session, by: signer)
        let stored = try await bench.services.objects.object(session.objectNames[0])
        for operation in [FaultyState.Operation.insertUpload, .insertComplete, .complete] {
            bench.state.plan.before(operation) { _ = try? await bench.uploads.commit(applied.sessionKey, by: signer) }
        }
        let code = try await refusal {
            try await bench.send([3, 2, 1], as: session.video, of: session, by: signer)
        }
        #expect(code == .conditionFailed)
        #expect(try await bench.services.objects.object(session.objectNames[0]) == stored)
        let media = try await bench.uploads.commit(applied.sessionKey, by: signer).media
        #expect(media.md5 == Hexadecimal.encode(Digest.hash([1, 2, 3], .md5)))
    }

    @Test(
        "wherever the gateway dies in a commit, the session can be resumed and committed, and nothing of before changes it"
    )
    func crashBetweenEndAndRecord() async throws {
        try await VODBench.afterEachCall { bench, calls in
            let signer = try await bench.signer()
            let applied = try await bench.uploads.begin(VODBench.video, region: nil, by: signer)
            let before = applied.session
            try await bench.send([1, 2, 3], as: before.video, of: before, by: signer)
            let (_, isOver) = await bench.dying(afterCalls: calls) {
                try await bench.uploads.commit(applied.sessionKey, by: signer)
            }
            if let after = try? await bench.uploads.resume(applied.sessionKey, by: signer).session {
                try await bench.send([3, 2, 1], as: after.video, of: after, by: signer)
            }
            let media = try await bench.uploads.commit(applied.sessionKey, by: signer).media
            let stored = try await bench.services.objects.object(before.objectNames[0])
            #expect(media.md5 == stored?.attributes?.entityTag, "\(calls)")
            let code = try await refusal { try await bench.send([9, 9, 9], as: before.video, of: before, by: signer) }
            #expect(code == .conditionFailed, "\(calls)")
            return isOver
        }
    }

    @Test("a commit that comes too early leaves the certificates valid")
    func earlyCommit() async throws {
        let bench = try VODBench()
        let signer = try await bench.signer()
        let applied = try await bench.uploads.begin(VODBench.video, region: nil, by: signer)
        let session = applied.session
        #expect(
            try await bench.code { _ = try await bench.uploads.commit(applied.sessionKey, by: signer) } == .incomplete
        )
        try await bench.send([1, 2, 3], as: session.video, of: session, by: signer)
        _ = try await bench.uploads.commit(applied.sessionKey, by: signer)
    }

    @Test("the end of a session is the end of its certificates")
    func endOfSession() async throws {
        let bench = try VODBench()
        let signer = try await bench.signer()
        let applied = try await bench.sent(VODBench.video, by: signer)
        bench.clock.advance(by: 3 * day)
        try await bench.uploads.removeExpired()
        let code = try await refusal {
            try await bench.send([1, 1, 1], as: applied.session.video, of: applied.session, by: signer)
        }
        #expect(code == .conditionFailed)
        #expect(try await bench.keys().isEmpty)
    }

    // MARK: The end of sessions

    @Test("a session that ends before its commit is recorded is not committed, and leaves nothing")
    func commitAtTheEnd() async throws {
        let bench = try VODBench()
        let signer = try await bench.signer()
        let applied = try await bench.sent(by: signer)
        bench.clock.advance(by: day - 1)
        bench.state.plan.before(.applyChanges) {
            bench.clock.advance(by: 7200)
            _ = try? await bench.uploads.removeExpired()
        }
        let code = try await bench.code { _ = try await bench.uploads.commit(applied.sessionKey, by: signer) }
        #expect(code == .invalidSession)
        #expect(try await bench.count(VODMedia.kind) == 0)
        #expect(try await bench.count(VODEvent.recordKind) == 0)
        #expect(try await bench.keys().isEmpty)
    }

    @Test("a commit that comes while its session is being removed keeps it")
    func commitFirst() async throws {
        let bench = try VODBench()
        let signer = try await bench.signer()
        let applied = try await bench.sent(by: signer)
        bench.clock.advance(by: day + 3601)
        bench.state.plan.before(.replaceRecord) {
            // Its request has arrived in time.
            bench.clock.advance(by: -3602)
            _ = try? await bench.uploads.commit(applied.sessionKey, by: signer)
            bench.clock.advance(by: 3602)
        }
        try await bench.uploads.removeExpired()
        #expect(try await bench.count(VODMedia.kind) == 1)
        #expect(try await bench.keys() == Set(applied.session.files.map(\.key)))
    }

    @Test("a session that a gateway of an earlier version has committed without its media can be committed again")
    func committedWithoutMedia() async throws {
        let bench = try VODBench()
        let signer = try await bench.signer()
        let applied = try await bench.sent(by: signer)
        let record = try #require(try await bench.state.record(VODSession.kind, applied.session.fileID))
        let found = try CodedRecord<VODSession>(record)
        var session = found.content
        session.isCommitted = true
        #expect(try await bench.state.replace(found.replaced(by: session, until: record.expiresAt).record))
        for _ in 0..<2 { _ = try await bench.uploads.commit(applied.sessionKey, by: signer) }
        #expect(try await bench.count(VODMedia.kind) == 1)
        #expect(try await bench.count(VODEvent.recordKind) == 1)
    }

    @Test("wherever the gateway dies while it cleans up, the next run removes the rest")
    func crashWhileCleaning() async throws {
        try await VODBench.afterEachCall { bench, calls in
            let signer = try await bench.signer()
            _ = try await bench.sent(by: signer)
            let kept = try await bench.sent(by: signer)
            _ = try await bench.uploads.commit(kept.sessionKey, by: signer)
            bench.clock.advance(by: 3 * day)
            let (_, isOver) = await bench.dying(afterCalls: calls) { try await bench.uploads.removeExpired() }
            try await bench.uploads.removeExpired()
            #expect(try await bench.keys() == Set(kept.session.files.map(\.key)), "\(calls)")
            #expect(try await bench.count(VODSession.kind) == 0, "\(calls)")
            return isOver
        }
    }

    @Test("a session that cannot be read, or whose files cannot be removed, keeps no other from being removed")
    func badSessions() async throws {
        let bench = try VODBench()
        let signer = try await bench.signer()
        var sent: [VODSession] = []
        for _ in 0..<3 {
            sent.append(try await bench.sent(VODBench.video, by: signer).session)
            bench.clock.advance(by: 1)
        }
        var broken = try #require(try await bench.state.record(VODSession.kind, sent[0].fileID))
        broken.text = "{}"
        #expect(try await bench.state.replace(broken))
        bench.clock.advance(by: 3 * day)
        bench.state.plan.fail(.object)
        await #expect(throws: UploadError.self) { try await bench.uploads.removeExpired() }
        let left = try await bench.state.records(VODSession.kind, prefix: "", after: nil, limit: 9).map(\.key)
        #expect(left == [sent[0].fileID, sent[1].fileID])
        await #expect(throws: UploadError.self) { try await bench.uploads.removeExpired() }
        #expect(try await bench.count(VODSession.kind) == 1)
        #expect(try await bench.keys() == Set(sent[0].files.map(\.key)))
    }

    @Test("cleaning up reads the sessions that are over, and no others")
    func cleaningReads() async throws {
        let bench = try VODBench()
        let signer = try await bench.signer()
        for _ in 0..<250 {
            bench.clock.advance(by: 1)
            _ = try await bench.uploads.begin(VODBench.video, region: nil, by: signer)
        }
        bench.clock.advance(by: day)
        let before = bench.state.plan.calls(of: .dialectRecords)
        try await bench.uploads.removeExpired()
        // Those of earlier versions, and an empty page.
        #expect(bench.state.plan.calls(of: .dialectRecords) - before == 2)
        #expect(try await bench.state.records(VODSession.kind, prefix: "", after: nil, limit: 999).count == 250)
        bench.clock.advance(by: 3601)
        try await bench.uploads.removeExpired()
        #expect(try await bench.count(VODSession.kind) == 0)
    }

    @Test("credentials do not outlive their session, and its files stay for an hour longer")
    func credentials() async throws {
        let bench = try VODBench()
        let signer = try await bench.signer()
        let applied = try await bench.sent(by: signer)
        #expect(applied.credentials.expiresAt == bench.clock.now.addingTimeInterval(7200))
        var place = bench.uploads.place
        place.certificateSeconds = 100 * 86_400
        let long = bench.uploads(at: place)
        let other = try await long.begin(VODBench.video, region: nil, by: signer)
        #expect(other.credentials.expiresAt == bench.clock.now.addingTimeInterval(day))
        bench.clock.advance(by: day + 3599)
        try await bench.uploads.removeExpired()
        #expect(try await bench.keys().count == 2)
        // It is over all the same.
        let resumed = try await bench.code { _ = try await bench.uploads.resume(applied.sessionKey, by: signer) }
        let committed = try await bench.code { _ = try await bench.uploads.commit(applied.sessionKey, by: signer) }
        #expect(resumed == .invalidSession && committed == .invalidSession)
        bench.clock.advance(by: 1)
        try await bench.uploads.removeExpired()
        #expect(try await bench.keys().isEmpty)
    }

    @Test("files of an expired session are removed, although expired records are forgotten first")
    func forgottenRecords() async throws {
        let bench = try VODBench()
        _ = try await bench.sent(by: bench.signer())
        bench.clock.advance(by: 3 * day)
        try await bench.state.forgetRecords(expiredBefore: bench.clock.now)
        try await bench.uploads.removeExpired()
        #expect(try await bench.keys().isEmpty)
    }

    @Test("each use extends a session; an unused one ends")
    func extending() async throws {
        let bench = try VODBench()
        let signer = try await bench.signer()
        let used = try await bench.sent(by: signer)
        let unused = try await bench.sent(by: signer)
        for _ in 0..<3 {
            bench.clock.advance(by: day - 10)
            let again = try await bench.uploads.resume(used.sessionKey, by: signer)
            #expect(again.session.files == used.session.files)
            try await bench.uploads.removeExpired()
        }
        #expect(
            try await bench.code { _ = try await bench.uploads.resume(unused.sessionKey, by: signer) }
                == .invalidSession
        )
        #expect(try await bench.keys() == Set(used.session.files.map(\.key)))
        _ = try await bench.uploads.commit(used.sessionKey, by: signer)
    }

    // MARK: Files named again

    @Test("a session goes on for its own files only")
    func namedFiles() async throws {
        func file(_ type: String, _ size: Int64?, name: String = "other") -> VODNewFile {
            VODNewFile(name: name, type: type, size: size)
        }
        let bench = try VODBench()
        let signer = try await bench.signer()
        let both = try await bench.uploads.begin(VODBench.both, region: nil, by: signer)
        let one = try await bench.uploads.begin(VODBench.video, region: nil, by: signer)
        let unknown = VODRequest.media(file("mp4", nil), cover: file("jpg", nil))
        let open = try await bench.uploads.begin(unknown, region: nil, by: signer)
        let made = try await bench.committed(by: signer)
        let replaced = VODRequest.cover(file("png", 1), of: made.session.fileID)
        let cover = try await bench.uploads.begin(replaced, region: nil, by: signer)
        let (video, image) = (file("MP4", 3), file("jpg", 2))
        for (applied, named, isSame) in [
            (both, VODNamedFiles(), true),
            (both, VODNamedFiles(video: video, cover: image), true),
            (both, VODNamedFiles(video: file("mp4", nil), cover: file("JPG", nil)), true),
            (both, VODNamedFiles(video: video), false),
            (both, VODNamedFiles(cover: image), false),
            (both, VODNamedFiles(video: video, cover: file("jpg", 3)), false),
            (both, VODNamedFiles(video: video, cover: file("png", 2)), false),
            (both, VODNamedFiles(video: file("mp4", 4), cover: image), false),
            (both, VODNamedFiles(video: file("mov", 3), cover: image), false),
            (both, VODNamedFiles(video: video, cover: image, replacing: "1"), false),
            (one, VODNamedFiles(video: video), true),
            (one, VODNamedFiles(video: video, cover: image), false),
            (open, VODNamedFiles(video: video, cover: image), true),
            (open, VODNamedFiles(video: video), false),
            (cover, VODNamedFiles(), true),
            (cover, VODNamedFiles(cover: file("png", 1)), true),
            (cover, VODNamedFiles(cover: file("png", 1), replacing: made.session.fileID), true),
            (cover, VODNamedFiles(cover: file("png", 1), replacing: both.session.fileID), false),
            (cover, VODNamedFiles(video: video, cover: file("png", 1)), false),
        ] {
            let code = try await bench.code {
                let resumed = try await bench.uploads.resume(applied.sessionKey, for: named, by: signer)
                #expect(resumed.session.files.map(\.key) == applied.session.files.map(\.key))
                #expect(resumed.session.files.map(\.size) == applied.session.files.map(\.size))
            }
            #expect(code == (isSame ? nil : .invalidSession), "\(named)")
        }
        // The last name that the app gave it.
        let resumed = try await bench.uploads.resume(both.sessionKey, by: signer).session
        #expect(resumed.video?.name == "other" && resumed.video?.type == "mp4" && resumed.cover?.name == "other")
    }

    @Test("a one-time signature with other files begins another upload")
    func namedFilesOfOneTimeSignature() async throws {
        let bench = try VODBench()
        let first = try await bench.uploads.begin(VODBench.video, region: nil, by: try await bench.signer())
        let once = try await bench.oneTimeSigner()
        let named = VODNamedFiles(video: VODNewFile(name: "v", type: "mp4", size: 4))
        let code = try await bench.code {
            _ = try await bench.uploads.resume(first.sessionKey, for: named, by: once)
        }
        #expect(code == .invalidSession)
        _ = try await bench.uploads.begin(VODBench.video, region: nil, by: once)
    }

    // MARK: Playlists

    private static let playlist = VODRequest.media(
        VODNewFile(name: "v", type: "m3u8", size: nil),
        cover: VODNewFile(name: "c", type: "jpg", size: nil)
    )

    private func server(_ bench: VODBench) async throws -> VODSigner {
        var signer = try await bench.signer()
        signer.serverLimits = KeyLimits()
        return signer
    }

    /// A file below the directory of a session.
    private func segment(_ path: String, _ session: VODSession, size: Int64 = 1) throws -> VODFile {
        let directory = try #require(session.segments)
        return VODFile(key: directory.key + path, name: "", type: "ts", size: size)
    }

    @Test("the files of a playlist belong to its media")
    func segments() async throws {
        let bench = try VODBench()
        let signer = try await server(bench)
        let applied = try await bench.sent(Self.playlist, by: signer)
        let session = applied.session
        for (path, size) in [("a.ts", 10), ("sub/b.ts", 20)] as [(String, Int64)] {
            try await bench.put(try segment(path, session, size: size), of: session)
        }
        let open = try await bench.beginParts(try segment("sub/c.ts", session), of: session, by: signer)
        let media = try await bench.uploads.commit(applied.sessionKey, by: signer).media
        // Without the cover.
        #expect(media.video.size == 31 && media.md5 == nil)
        // Its right has ended, also for segments.
        #expect(try await bench.services.uploads.recorded(open.id).state == .terminated)
        for path in ["a.ts", "d.ts"] {
            let file = try segment(path, session)
            let code = try await refusal { try await bench.send([2, 2], as: file, of: session, by: signer) }
            #expect(code == .conditionFailed)
        }
        #expect(try await bench.keys().count == 4)
        // The end of the session takes nothing away; a deletion everything.
        let other = try await bench.committed(by: try await bench.signer())
        try await bench.cleanUp()
        #expect(try await bench.keys().count == 6)
        #expect(try await bench.delete(session))
        #expect(try await bench.keys() == Set(other.session.files.map(\.key)))
    }

    @Test("wherever the gateway dies while a playlist is deleted, or its session ends, the rest is removed")
    func crashWithSegments() async throws {
        for isCommitted in [true, false] {
            try await VODBench.afterEachCall { bench, calls in
                let signer = try await server(bench)
                let applied = try await bench.sent(Self.playlist, by: signer)
                for path in ["a.ts", "sub/b.ts"] {
                    try await bench.put(try segment(path, applied.session), of: applied.session)
                }
                let kept = try await bench.committed(by: try await bench.signer())
                let isOver: Bool
                if isCommitted {
                    _ = try await bench.uploads.commit(applied.sessionKey, by: signer)
                    (_, isOver) = await bench.dying(afterCalls: calls) { try await bench.delete(applied.session) }
                    // It may have died before the deletion began.
                    _ = try await bench.delete(applied.session)
                } else {
                    bench.clock.advance(by: 3 * day)
                    (_, isOver) = await bench.dying(afterCalls: calls) { try await bench.uploads.removeExpired() }
                }
                try await bench.cleanUp()
                #expect(try await bench.keys() == Set(kept.session.files.map(\.key)), "\(calls)")
                return isOver
            }
        }
    }

    @Test("certificates of servers cover the files of a playlist, and no others those of another file")
    func certificates() async throws {
        let bench = try VODBench()
        for (signer, type, covers) in [
            (try await server(bench), "m3u8", true), (try await server(bench), "M3U8", true),
            (try await server(bench), "mpd", true), (try await server(bench), "mp4", false),
            (try await bench.signer(), "m3u8", false),
        ] {
            let request = VODRequest.media(VODNewFile(name: "v", type: type, size: nil), cover: nil)
            let session = try await bench.uploads.begin(request, region: nil, by: signer).session
            let key = try #require(session.video?.key)
            let directory = try #require(key.range(of: "f0.")).lowerBound
            #expect(session.segments?.key == (covers ? String(key[..<directory]) : nil), "\(type)")
        }
    }

    // MARK: Covers

    @Test("wherever the gateway dies while a cover is replaced, the old one is removed in the end, and no other")
    func crashWhileReplacing() async throws {
        try await VODBench.afterEachCall { bench, calls in
            let signer = try await bench.signer()
            let made = try await bench.sent(by: signer)
            _ = try await bench.uploads.commit(made.sessionKey, by: signer)
            // The session of the video is over before.
            bench.clock.advance(by: 3 * day)
            try await bench.uploads.removeExpired()
            let request = VODRequest.cover(VODNewFile(name: "d", type: "png", size: 1), of: made.session.fileID)
            let cover = try await bench.sent(request, by: signer)
            let (_, isOver) = await bench.dying(afterCalls: calls) {
                try await bench.uploads.commit(cover.sessionKey, by: signer)
            }
            let media = try await bench.uploads.commit(cover.sessionKey, by: signer).media
            #expect(media.cover == cover.session.cover && media.fileID == made.session.fileID)
            bench.clock.advance(by: 3 * day)
            try await bench.uploads.removeExpired()
            let wanted = [made.session.video?.key, cover.session.cover?.key].compactMap { $0 }
            #expect(try await bench.keys() == Set(wanted), "\(calls)")
            return isOver
        }
    }

    @Test("a cover that is committed late does not replace a later one")
    func lateCover() async throws {
        let bench = try VODBench()
        let signer = try await bench.signer()
        let made = try await bench.sent(by: signer)
        _ = try await bench.uploads.commit(made.sessionKey, by: signer)
        let request = VODRequest.cover(VODNewFile(name: "d", type: "png", size: 1), of: made.session.fileID)
        let early = try await bench.sent(request, by: signer)
        bench.clock.advance(by: 1)
        let late = try await bench.sent(request, by: signer)
        #expect(try await bench.uploads.commit(late.sessionKey, by: signer).media.cover == late.session.cover)
        #expect(try await bench.uploads.commit(early.sessionKey, by: signer).media.cover == late.session.cover)
        bench.clock.advance(by: 3 * day)
        try await bench.uploads.removeExpired()
        let wanted = [made.session.video?.key, late.session.cover?.key].compactMap { $0 }
        #expect(try await bench.keys() == Set(wanted))
    }
    @Test("a repeated commit of a cover gives the later one, although its own file is gone")
    func repeatedCover() async throws {
        let bench = try VODBench()
        let signer = try await bench.signer()
        let made = try await bench.committed(by: signer)
        let request = VODRequest.cover(VODNewFile(name: "d", type: "png", size: 1), of: made.session.fileID)
        let early = try await bench.committed(request, by: signer)
        bench.clock.advance(by: 1)
        let late = try await bench.committed(request, by: signer)
        for session in [early, late] {
            #expect(try await bench.uploads.commit(session.sessionKey, by: signer).media.cover == late.session.cover)
        }
    }

    @Test("a committed session cannot be resumed")
    func resumedAfterCommit() async throws {
        let bench = try VODBench()
        let signer = try await bench.signer()
        let made = try await bench.committed(by: signer)
        #expect(
            try await bench.code { _ = try await bench.uploads.resume(made.sessionKey, by: signer) } == .invalidSession
        )
    }

    @Test("files that are empty, or have another size than announced, are not committed")
    func sizes() async throws {
        let bench = try VODBench()
        let signer = try await bench.signer()
        let unknown = VODRequest.media(VODNewFile(name: "v", type: "mp4", size: nil), cover: nil)
        for (request, size) in [(unknown, 0), (VODBench.video, 2), (VODBench.video, 4)] as [(VODRequest, Int64)] {
            let applied = try await bench.uploads.begin(request, region: nil, by: signer)
            #expect(
                try await bench.code { _ = try await bench.uploads.commit(applied.sessionKey, by: signer) }
                    == .incomplete
            )
            var file = try #require(applied.session.video)
            file.size = size
            try await bench.put(file, of: applied.session)
            #expect(
                try await bench.code { _ = try await bench.uploads.commit(applied.sessionKey, by: signer) }
                    == .incomplete
            )
            file.size = 3
            try await bench.put(file, of: applied.session)
            #expect(try await bench.uploads.commit(applied.sessionKey, by: signer).media.video.size == 3)
        }
    }

    @Test("sessions and media are those of their application and user")
    func owners() async throws {
        let bench = try VODBench()
        let signer = try await bench.signer()
        let made = try await bench.committed(by: signer)
        let open = try await bench.sent(by: signer)
        let others = [
            try await bench.signer { $0.subject = "eve" }, try await bench.signer { $0.subject = nil },
            try await bench.signer { $0.vodSubAppID = 1_500_000_001 },
        ]
        let cover = VODRequest.cover(VODNewFile(name: "d", type: "png", size: 1), of: made.session.fileID)
        for other in others {
            for key in [made.sessionKey, open.sessionKey] {
                let resumed = try await bench.code { _ = try await bench.uploads.resume(key, by: other) }
                let committed = try await bench.code { _ = try await bench.uploads.commit(key, by: other) }
                #expect(resumed == .invalidSession && committed == .invalidSession)
            }
            let begun = try await bench.code { _ = try await bench.uploads.begin(cover, region: nil, by: other) }
            #expect(begun == .noMedia)
        }
    }

    @Test("a one-time signature of one upload neither resumes nor commits another one")
    func foreignOneTimeSignature() async throws {
        let bench = try VODBench()
        let once = try await bench.oneTimeSigner()
        _ = try await bench.uploads.begin(VODBench.video, region: nil, by: once)
        let other = try await bench.sent(by: bench.signer())
        let resumed = try await bench.code { _ = try await bench.uploads.resume(other.sessionKey, by: once) }
        let committed = try await bench.code { _ = try await bench.uploads.commit(other.sessionKey, by: once) }
        #expect(resumed == .signatureUsed && committed == .signatureUsed)
    }

    @Test("no key of a session looks like an option of a command line")
    func sessionKeys() throws {
        let keys = VODSessionKeys(master: try #require(MasterSecret(bytes: [UInt8](repeating: 7, count: 32))))
        for _ in 0..<1000 {
            let key = keys.seal("1764000000000000000")
            #expect(!key.hasPrefix("-"))
            #expect(keys.open(key) == "1764000000000000000" && keys.open(String(key.dropFirst())) == nil)
        }
    }
}
