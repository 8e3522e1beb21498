import Bytes
import Foundation
import HTTPClient
import Signing
import SluiceTesting
import Testing
import UploadCore
import UploadModel

@testable import Pulls
@testable import TencentVOD
@testable import VODKit

private let day: TimeInterval = 86_400

@Suite("Media that is pulled", .timeLimit(.minutes(10)))
struct VODPullsTests {
    /// A bench whose pulls never fetch anything: the tests store the bytes.
    private struct Bench {
        let base: VODBench
        let pulls: VODPulls

        init() throws {
            base = try VODBench()
            let master = try #require(MasterSecret(bytes: [UInt8](repeating: 7, count: 32)))
            let sealer = PullSealer(master: master)
            let service = PullService(
                uploads: base.services.uploads,
                pulls: base.state,
                origin: NoOrigin(),
                sealer: sealer,
                limits: PullLimits(),
                revoked: RevocationList(state: base.state, clock: base.clock),
                observe: { _ in }
            )
            let starter = PullStarter(pulls: service, sealer: sealer, addresses: .publicOnly())
            pulls = VODPulls(uploads: base.uploads, starter: starter)
        }

        func begin() async throws -> VODPull {
            let signer = try await base.signer()
            return try await pulls.begin(
                VODNewFile(name: "v", type: "mp4", size: nil),
                from: "https://origin.example/v.mp4?token=x",
                within: .publicOnly,
                sessionID: nil,
                by: signer
            )
        }

        /// Stores the bytes of all pulled uploads, as the pull service does.
        func arrive() async throws {
            for upload in try await base.state.uploads(UploadQuery(limit: 100)) where upload.state == .open {
                _ = try await base.services.uploads.append(
                    to: upload.id,
                    at: 0,
                    contentLength: nil,
                    finish: .explicit(isLast: true),
                    expecting: nil,
                    from: ArraySource([1, 2, 3])
                )
            }
        }

        func task(_ task: VODPull) async throws -> VODPull? {
            try await pulls.task(task.taskID, of: task.owner.application)?.task.content
        }

        func events() async throws -> [VODEvents.Claimed] {
            try await base.events.claim(of: nil, limit: 100, for: 0)
        }

        /// Keys of the objects of all media.
        func mediaKeys() async throws -> Set<String> {
            let records = try await base.state.records(VODMedia.kind, prefix: "", after: nil, limit: 100)
            return Set(try records.map { try CodedRecord<VODMedia>($0).content.video.key })
        }
    }

    private struct NoOrigin: PullOrigin {
        func open(_ request: PullRequest, rest: OriginRest?) async throws(PullFailure) -> OriginResponse {
            throw PullFailure("unreachable", "there is no origin", .final)
        }
    }

    @Test("what has arrived becomes media, once, with one event")
    func arrives() async throws {
        let bench = try Bench()
        let begun = try await bench.begin()
        #expect(begun.url == "https://origin.example/v.mp4")
        _ = try await bench.pulls.finishAll()
        #expect(try await bench.pulls.finishAll())
        #expect(try await bench.task(begun)?.finishedAt == nil)
        #expect(try await bench.events().isEmpty)
        try await bench.arrive()
        for _ in 0..<2 { _ = try await bench.pulls.finishAll() }
        let task = try #require(try await bench.task(begun))
        #expect(task.finishedAt == bench.base.clock.now.unixSeconds && task.failure == nil)
        let media = try #require(try await bench.base.library.media(task.fileID, of: task.owner.application)).content
        #expect(media.source == .pull && media.video.size == 3 && media.video.key == begun.video.key)
        #expect(try await bench.events().map(\.record.content.kind) == [.pulled])
        #expect(try await bench.base.count("tencent pull") == 0)
        #expect(try await !bench.pulls.finishAll())
    }

    @Test("a task that cannot be read, and one that cannot be finished, keep no other one from its end")
    func badTasks() async throws {
        let bench = try Bench()
        var tasks: [VODPull] = []
        for _ in 0..<3 {
            tasks.append(try await bench.begin())
            bench.base.clock.advance(by: 1)
        }
        try await bench.arrive()
        try await bench.base.spoil(VODPull.kind, VODMedia.key(tasks[0].fileID, of: tasks[0].owner.application))
        bench.base.state.plan.fail(.object)
        let failing = FailingRecords(clock: bench.base.clock) { _ in }
        await #expect(throws: UploadError.self) { try await bench.pulls.finishAll(failing) }
        #expect(try await bench.task(tasks[1])?.finishedAt == nil)
        #expect(try await bench.task(tasks[2])?.finishedAt != nil)
        #expect(failing.count == 2)
        bench.base.clock.advance(by: 2)
        await #expect(throws: UploadError.self) { try await bench.pulls.finishAll(failing) }
        #expect(try await bench.task(tasks[1])?.finishedAt != nil)
    }

    @Test("wherever the gateway dies at the beginning, what arrives becomes media")
    func crashAtTheBeginning() async throws {
        for calls in 0..<80 {
            let bench = try Bench()
            let (_, isOver) = await bench.base.dying(afterCalls: calls) { try await bench.begin() }
            try await bench.arrive()
            _ = try await bench.pulls.finishAll()
            #expect(try await bench.mediaKeys() == bench.base.keys(), "\(calls)")
            // What never began is over after a day.
            bench.base.clock.advance(by: 2 * day)
            _ = try await bench.pulls.finishAll()
            #expect(try await bench.base.count("tencent pull") == 0, "\(calls)")
            if isOver {
                #expect(try await bench.mediaKeys().count == 1)
                return
            }
        }
        Issue.record("beginning makes more calls than this test lets pass")
    }

    @Test("wherever the gateway dies at the end, there are one media and its event")
    func crashAtTheEnd() async throws {
        for calls in 0..<80 {
            let bench = try Bench()
            let begun = try await bench.begin()
            try await bench.arrive()
            let (_, isOver) = await bench.base.dying(afterCalls: calls) { try await bench.pulls.finishAll() }
            _ = try await bench.pulls.finishAll()
            #expect(try await bench.mediaKeys() == [begun.video.key], "\(calls)")
            #expect(try await bench.events().map(\.record.content.kind) == [.pulled], "\(calls)")
            #expect(try await bench.task(begun)?.failure == nil, "\(calls)")
            #expect(try await bench.base.count("tencent pull") == 0, "\(calls)")
            if isOver { return }
        }
        Issue.record("finishing makes more calls than this test lets pass")
    }

    @Test("a task is kept for seven days after its end, and as long as it takes before")
    func retention() async throws {
        let bench = try Bench()
        let begun = try await bench.begin()
        try await bench.base.state.forgetRecords(expiredBefore: bench.base.clock.now + 90 * day)
        #expect(try await bench.task(begun) != nil)
        try await bench.arrive()
        _ = try await bench.pulls.finishAll()
        for (days, isKept) in [(6.9, true), (0.2, false)] {
            bench.base.clock.advance(by: days * day)
            try await bench.base.state.forgetRecords(expiredBefore: bench.base.clock.now)
            #expect((try await bench.task(begun)?.finishedAt != nil) == isKept)
        }
    }

    @Test("a pull that was ended is told with its reason, and makes no media")
    func failure() async throws {
        let bench = try Bench()
        let begun = try await bench.begin()
        let id = try #require(begun.uploadID.flatMap { UploadID($0) })
        try await bench.base.services.uploads.terminate(id)
        for _ in 0..<2 { _ = try await bench.pulls.finishAll() }
        #expect(try await bench.task(begun)?.failure?.code == 60_000)
        let events = try await bench.events()
        #expect(events.count == 1 && events[0].details.media == nil && events[0].details.task?.failure?.code == 60_000)
        // A caller that may see media of other users only gets none of it.
        let all = bench.base.events
        let foreign = try await all.claim(of: nil, limit: 1, for: 0) { $0.owner.subject == "eve" }
        #expect(foreign.isEmpty)
        let handle = VODEvents.handle(of: events[0])
        #expect(try await !all.confirm(handle, of: begun.owner.application) { $0.owner.subject == "eve" })
        #expect(try await all.confirm(handle, of: begun.owner.application) { $0.owner.subject == "dora" })
        #expect(try await bench.events().isEmpty)
        #expect(try await bench.mediaKeys().isEmpty)
    }

    @Test("deleting the media changes nothing of its task, and there is no event any more", arguments: [true, false])
    func deleted(isRecorded: Bool) async throws {
        let bench = try Bench()
        let begun = try await bench.begin()
        try await bench.arrive()
        if isRecorded {
            bench.base.state.plan.lose(.applyChanges, with: UploadError(.storageFailure, "lost"))
            await #expect(throws: UploadError.self) { _ = try await bench.pulls.finishAll() }
        } else {
            // A gateway of an earlier version has made the media, and died before it recorded the end.
            let media = try #require(VODMedia(begun.session, size: 3, md5: nil))
            #expect(try await bench.base.state.apply([bench.base.library.insertion(of: media)]))
        }
        #expect((try await bench.task(begun)?.finishedAt != nil) == isRecorded)
        #expect(try await bench.base.library.delete(begun.fileID, of: begun.owner.application) { _ in true })
        _ = try await bench.pulls.finishAll()
        let task = try #require(try await bench.task(begun))
        #expect(task.finishedAt != nil && task.failure == nil)
        #expect(try await bench.events().isEmpty)
        #expect(try await bench.base.keys().isEmpty)
        #expect(try await bench.base.count("tencent pull") == 0)
    }

    @Test(
        "name and type come from the path of the URL",
        arguments: [
            ("https://a.example/films/holi%20day.MP4?x=1.mov", "holi day", "MP4"),
            ("https://a.example/film", "film", nil),
            ("https://a.example/.hidden", ".hidden", nil),
            ("https://a.example", "", nil),
            ("https://a.example/", "", nil),
            ("https://a.example/a%2Fb.mp4", "", "mp4"),
            ("https://a.example/x.mp4#t=1.avi", "x", "mp4"),
            ("https://a.example/a%FF.mp4", "", nil),
            ("https://a.example/a\(String(repeating: "%CC%81", count: 65)).mp4", "", nil),
            (
                "https://a.example/a\(String(repeating: "%E2%83%9D", count: 500)).mp4",
                "a" + String(repeating: "\u{20DD}", count: 127), "mp4"
            ),
        ]
    )
    func names(_ url: String, _ name: String, _ type: String?) {
        let found = VODActions.lastSegment(of: url)
        #expect(found.name == name && found.type == type)
    }
}
