import Bytes
import Digests
import Foundation
import SluiceTesting
import Testing
import UploadCore
import UploadModel

@testable import TencentVOD
@testable import VODKit

@Suite("Content of VOD media that is replaced", .timeLimit(.minutes(10)))
struct VODContentTests {
    /// Stores an object as those may who can write to the bucket, and tells the owner.
    private func replace(
        _ key: String,
        by bytes: [UInt8],
        in bench: VODBench,
        isTold: Bool = true
    ) async throws {
        let name = ObjectName(bucket: bench.uploads.place.bucketName, key: key)
        var new = NewUpload(dialect: "s3", length: Int64(bytes.count), completesWhenFull: false)
        new.object = NewObject(name)
        let content = ObjectContent(ArraySource(bytes), size: Int64(bytes.count)) { () async throws(UploadError) in
            ContentDigests(md5: Digest.hash(bytes, .md5), crc64: 1)
        }
        let grant = Grant(id: "session", subject: "eve", expiresAt: .distantFuture)
        _ = try await bench.services.objects.putObject(new, under: grant, content) {
            $0.entityTag = Hexadecimal.encode($1.md5)
        }
        if isTold { await VODOwnership(place: bench.uploads.place, events: bench.events).stored(name) }
    }

    private func media(_ session: VODSession, in bench: VODBench) async throws -> CodedRecord<VODMedia> {
        try #require(try await bench.library.media(session.fileID, of: session.owner.application))
    }

    /// The ids of media whose events are due, which are confirmed.
    private func events(in bench: VODBench) async throws -> [String] {
        var ids: [String] = []
        for one in try await bench.events.claim(of: nil, limit: 16, for: 30) {
            ids.append(one.record.content.fileID)
            try await bench.events.outbox.remove(one.record.record.key)
        }
        return ids
    }

    private func hash(_ bytes: [UInt8]) -> String { Hexadecimal.encode(Digest.hash(bytes, .md5)) }

    @Test("the record has size and digest of what is stored, and an event tells of it")
    func replaced() async throws {
        let bench = try VODBench()
        let session = try await bench.committed(by: bench.signer()).session
        let id = session.fileID
        let key = try #require(session.video?.key)
        #expect(try await events(in: bench) == [id])
        let before = try await media(session, in: bench).content
        bench.clock.advance(by: 5)
        for bytes in [[9, 9, 9], [1, 2, 3, 4]] as [[UInt8]] {
            try await replace(key, by: bytes, in: bench)
            let after = try await media(session, in: bench).content
            #expect(after.video.size == Int64(bytes.count) && after.md5 == hash(bytes))
            #expect(after.updatedAt == bench.clock.now.unixSeconds && after.owner == before.owner)
            #expect(try await events(in: bench) == [id])
        }
        // What has no digest, and other objects.
        let after = try await media(session, in: bench).content
        try await replace(try #require(session.cover?.key), by: [7], in: bench)
        try await replace(key + "x", by: [7], in: bench)
        try await replace("vod/1/\(id)/f0.mp4", by: [7], in: bench)
        try await replace("vod/x/\(id)/f0.mp4", by: [7], in: bench)
        #expect(try await media(session, in: bench).content == after)
        #expect(try await events(in: bench).isEmpty)
    }

    @Test("the same content again is no replacement, and deleted media stays deleted")
    func unchanged() async throws {
        let bench = try VODBench()
        let made = try await bench.committed(by: bench.signer())
        let before = try await media(made.session, in: bench)
        _ = try await events(in: bench)
        let name = ObjectName(bucket: made.session.bucket, key: try #require(made.session.video?.key))
        let owner = VODOwnership(place: bench.uploads.place, events: bench.events)
        await owner.stored(name)
        let looked = try await bench.library.settled(before, telling: bench.events)
        #expect(looked?.record == before.record)
        #expect(try await media(made.session, in: bench).record == before.record)
        _ = try await bench.delete(made.session)
        try await replace(name.key, by: [9], in: bench)
        #expect(try await !bench.isThere(made.session))
        #expect(try await bench.library.settled(before, telling: bench.events) == nil)
        #expect(try await events(in: bench).isEmpty)
    }

    @Test("a gateway that dies before it knows of the new content finds it at the next look, and no event is lost")
    func crash() async throws {
        try await VODBench.afterEachCall { bench, calls in
            let session = try await bench.committed(by: bench.signer()).session
            _ = try await events(in: bench)
            let key = try #require(session.video?.key)
            try await replace(key, by: [9, 9], in: bench, isTold: false)
            let found = try await media(session, in: bench)
            let (_, isOver) = await bench.dying(afterCalls: calls) {
                try await bench.library.settled(found, telling: bench.events)
            }
            let isRecorded = try await media(session, in: bench).content.video.size == 2
            #expect(try await events(in: bench).count == (isRecorded ? 1 : 0), "\(calls)")
            let after = try await bench.library.settled(try await media(session, in: bench), telling: bench.events)
            #expect(after?.content.video.size == 2 && after?.content.md5 == hash([9, 9]))
            #expect(try await events(in: bench).count == (isRecorded ? 0 : 1), "\(calls)")
            return isOver
        }
    }

    @Test("a commit records what replaced a file before its media could be found")
    func raceWithCommit() async throws {
        let bench = try VODBench()
        let signer = try await bench.signer()
        let applied = try await bench.sent(VODBench.video, by: signer)
        let key = try #require(applied.session.video?.key)
        bench.state.plan.before(.applyChanges) {
            await recorded { try await replace(key, by: [9, 9], in: bench) }
        }
        let media = try await bench.uploads.commit(applied.sessionKey, by: signer).media
        #expect(media.video.size == 2 && media.md5 == hash([9, 9]))
        #expect(try await self.media(applied.session, in: bench).content == media)
    }

    @Test("records of earlier versions follow content of another size or digest")
    func earlierVersions() async throws {
        let bench = try VODBench()
        let session = try await bench.committed(VODBench.video, by: bench.signer()).session
        let key = try #require(session.video?.key)
        let found = try await media(session, in: bench)
        var old = found.content
        old.contentID = nil
        #expect(try await bench.state.replace(found.replaced(by: old, until: nil).record))
        let same = try await bench.library.settled(try await media(session, in: bench), telling: bench.events)
        #expect(same?.content == old)
        try await replace(key, by: [9, 9], in: bench)
        #expect(try await media(session, in: bench).content.md5 == hash([9, 9]))
    }

    /// A playlist of one byte, a cover, and a segment of three.
    private func committedPlaylist(in bench: VODBench) async throws -> VODSession {
        var signer = try await bench.signer()
        signer.serverLimits = KeyLimits()
        let request = VODRequest.media(
            VODNewFile(name: "v", type: "m3u8", size: nil),
            cover: VODNewFile(name: "", type: "jpg", size: nil)
        )
        let applied = try await bench.uploads.begin(request, region: nil, by: signer)
        let session = applied.session
        for file in session.files { try await bench.put(file, of: session) }
        let directory = try #require(session.segments?.key)
        try await replace(directory + "1.ts", by: [1, 2, 3], in: bench)
        #expect(try await bench.uploads.commit(applied.sessionKey, by: signer).media.video.size == 4)
        _ = try await events(in: bench)
        return session
    }

    @Test("a playlist of which a file was replaced by a gateway that died is found so at the next look, with its event")
    func crashWithPlaylist() async throws {
        try await VODBench.afterEachCall { bench, calls in
            let session = try await committedPlaylist(in: bench)
            let directory = try #require(session.segments?.key)
            try await replace(directory + "1.ts", by: [1, 2, 3, 4, 5], in: bench, isTold: false)
            let found = try await media(session, in: bench)
            let (_, isOver) = await bench.dying(afterCalls: calls) {
                try await bench.library.settled(found, telling: bench.events)
            }
            let isRecorded = try await media(session, in: bench).content.video.size == 6
            #expect(try await events(in: bench).count == (isRecorded ? 1 : 0), "\(calls)")
            let after = try await bench.library.settled(try await media(session, in: bench), telling: bench.events)
            #expect(after?.content.video.size == 6)
            #expect(try await events(in: bench).count == (isRecorded ? 0 : 1), "\(calls)")
            return isOver
        }
    }

    @Test(
        "of a playlist with many files a look counts them only if the playlist was replaced, or if one of them is stored"
    )
    func manyFiles() async throws {
        let bench = try VODBench()
        let session = try await committedPlaylist(in: bench)
        let directory = try #require(session.segments?.key)
        for number in 0..<VODLibrary.countedFiles {
            try await replace(directory + "a\(number).ts", by: [1], in: bench, isTold: false)
        }
        let before = try await media(session, in: bench)
        #expect(try await bench.library.settled(before, telling: bench.events)?.record == before.record)
        try await replace(directory + "1.ts", by: [1, 2, 3, 4], in: bench)
        let size = Int64(VODLibrary.countedFiles) + 5
        #expect(try await media(session, in: bench).content.video.size == size)
        try await replace(try #require(session.video?.key), by: [1, 2], in: bench, isTold: false)
        let after = try await bench.library.settled(try await media(session, in: bench), telling: bench.events)
        #expect(after?.content.video.size == size + 1)
    }

    @Test("the size of a playlist is that of all its files, also after the commit")
    func playlist() async throws {
        let bench = try VODBench()
        let session = try await committedPlaylist(in: bench)
        let directory = try #require(session.segments?.key)
        try await replace(directory + "1.ts", by: [1, 2, 3, 4, 5], in: bench)
        #expect(try await media(session, in: bench).content.video.size == 6)
        #expect(try await events(in: bench) == [session.fileID])
        try await replace(try #require(session.cover?.key), by: [1, 2, 3, 4, 5], in: bench)
        #expect(try await media(session, in: bench).content.video.size == 6)
        #expect(try await events(in: bench).isEmpty)
    }
}
