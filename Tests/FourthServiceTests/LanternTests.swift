import Foundation
import HTTPWire
import SettingsKit
import SluiceTesting
import Testing
import UploadCore
import UploadModel
import VODKit

/// What `CONTRIBUTING.md` says of a new video service, done.
@Suite("A fourth video service is a folder of translations", .timeLimit(.minutes(10)))
struct LanternTests {
    @Test("a video is begun, sent, committed, found and deleted, and the app gets an event for it and for its end")
    func life() async throws {
        let (posted, posting) = AsyncStream<TestServer.Call>.makeStream()
        let app = try TestServer { call, number in
            // The first attempt fails, and the event comes again.
            if number == 0 { return TestServer.Reply(503) }
            posting.yield(call)
            return TestServer.Reply(204)
        }
        try await LanternBench.run(events: app) { bench in
            let begun = try await bench.call("POST", "/lantern/videos", ["title": "Sea", "tags": ["blue"], "size": 5])
            #expect(begun.status == 201)
            let id = try begun.text("id")
            #expect(try await bench.call("GET", "/lantern/videos/\(id)").status == 404)
            let early = try await bench.call("PUT", "/lantern/videos/\(id)")
            #expect(early.status == 409 && early.body["error"] as? String == "incomplete")
            #expect(try await bench.send(Array("hel".utf8), to: begun.text("uploadURL")) == 204)
            #expect(try await bench.call("PUT", "/lantern/videos/\(id)").status == 409)
            #expect(try await bench.send(Array("lo".utf8), at: 3, to: begun.text("uploadURL")) == 204)
            for _ in 0..<2 { #expect(try await bench.call("PUT", "/lantern/videos/\(id)").status == 200) }
            let found = try await bench.call("GET", "/lantern/videos/\(id)")
            #expect(found.status == 200 && found.body["title"] as? String == "Sea" && found.body["size"] as? Int == 5)
            // The bytes are media of the gateway.
            #expect(try await bench.call("GET", "/v1/media/\(id)").status == 200)
            #expect(try await bench.call("DELETE", "/lantern/videos/\(id)").status == 204)
            #expect(try await bench.call("GET", "/lantern/videos/\(id)").status == 404)
            #expect(try await bench.call("DELETE", "/lantern/videos/\(id)").status == 404)
            #expect(try await bench.call("GET", "/v1/media/\(id)").status != 200)
            var types: [String] = []
            for await call in posted {
                let event = try JSONDecoder().decode([String: String].self, from: Data(call.body.utf8))
                #expect(event["video"] == id && event["title"] == "Sea" && call.field("webhook-signature") != nil)
                types.append(event["type"] ?? "")
                if types.count == 2 { break }
            }
            #expect(types == ["video.ready", "video.deleted"])
        }
        await app.shutDown()
    }

    @Test("videos are found by tag, in pages, newest first, and only those of the key's user")
    func search() async throws {
        try await LanternBench.run { bench in
            let key = try await bench.key(for: ["alice"])
            let first = try await bench.video("one", tags: ["red"], user: "alice")
            let second = try await bench.video("two", tags: ["red", "blue"], key: key)
            let third = try await bench.video("three", tags: ["red"], user: "bob")
            func ids(
                _ query: String,
                key: String = LanternBench.adminKey
            ) async throws -> (ids: [String], next: String?) {
                let page = try await bench.call("GET", "/lantern/videos?" + query, key: key)
                let videos = try #require(page.body["videos"] as? [[String: Any]], "\(page)")
                return (videos.compactMap { $0["id"] as? String }, page.body["next"] as? String)
            }
            #expect(try await ids("").ids == [third, second, first])
            #expect(try await ids("tag=blue").ids == [second])
            #expect(try await ids("tag=Blue").ids.isEmpty)
            #expect(try await ids("tag=red", key: key).ids == [second, first])
            let page = try await ids("tag=red&limit=2")
            #expect(page.ids == [third, second])
            #expect(try await ids("tag=red&limit=2&after=\(#require(page.next))").ids == [first])
            #expect(try await bench.call("GET", "/lantern/videos/\(third)", key: key).status == 404)
            #expect(try await bench.call("DELETE", "/lantern/videos/\(third)", key: key).status == 404)
        }
    }

    @Test("refusals have the form of the service")
    func refusals() async throws {
        try await LanternBench.run { bench in
            let key = try await bench.key(for: ["alice"])
            func refusal(
                _ method: String,
                _ path: String,
                _ content: [String: Any]? = nil,
                key: String? = LanternBench.adminKey
            ) async throws -> String {
                let answer = try await bench.call(method, path, content, key: key)
                return "\(answer.status) \(try answer.text("error"))"
            }
            #expect(try await refusal("GET", "/lantern/videos", key: nil) == "401 unauthenticated")
            #expect(try await refusal("GET", "/lantern/videos", key: "slk_wrong") == "401 unauthenticated")
            #expect(try await refusal("POST", "/lantern/videos", ["tags": []]) == "400 malformed")
            #expect(try await refusal("POST", "/lantern/videos", ["title": "x", "size": -1]) == "400 malformed")
            #expect(try await refusal("GET", "/lantern/videos?limit=0") == "400 malformed")
            #expect(try await refusal("GET", "/lantern/videos?after=x") == "400 malformed")
            #expect(try await refusal("PUT", "/lantern/videos/none") == "404 no_video")
            #expect(try await refusal("PATCH", "/lantern/videos/none") == "405 no_such_call")
            #expect(try await refusal("GET", "/lantern/other") == "404 no_video")
            #expect(
                try await refusal("POST", "/lantern/videos", ["title": "x", "user": "bob"], key: key) == "403 forbidden"
            )
            #expect(
                try await refusal("POST", "/lantern/videos", ["title": "x", "size": Int64.max]) == "413 too_large"
            )
            // What could not be begun leaves nothing.
            #expect(try await bench.call("GET", "/lantern/videos").body["videos"] as? [String] == [])
        }
    }

    @Test("each error of the core has a status and a code", arguments: UploadError.Code.samples)
    func table(code: UploadError.Code) {
        let failure = LanternFailure(UploadError(code, "text"))
        #expect((400...599).contains(failure.status.code) && !failure.code.isEmpty && failure.message == "text")
        let isRate = if case .tooManyRequests = code { true } else { false }
        #expect(failure.response.fields["Retry-After"] == (isRate ? "2" : nil))
    }

    @Test("a video that nobody commits is removed with its bytes, one that is committed stays")
    func expiry() async throws {
        let bench = LibraryBench()
        let (begun, upload) = try await bench.begin()
        let (committed, _) = try await bench.begin()
        _ = try await bench.library.commit(committed.id, by: bench.key)
        #expect(try await !bench.library.finish(FailingRecords()))
        bench.clock.advance(by: 61)
        #expect(try await bench.library.finish(FailingRecords()))
        #expect(try await bench.library.video(committed.id, by: bench.key).id == committed.id)
        #expect(try await bench.state.record(LanternVideo.recordKind, begun.id) == nil)
        #expect(try await bench.state.upload(upload.id)?.isAlive != true)
        await #expect(throws: LanternFailure.noVideo) { try await bench.library.commit(begun.id, by: bench.key) }
        #expect(try await bench.state.records("lantern begun", prefix: "", after: nil, limit: 9).isEmpty)
    }

    @Test("a deletion whose bytes cannot be removed now is finished later")
    func interrupted() async throws {
        let bench = LibraryBench()
        let (video, upload) = try await bench.begin()
        _ = try await bench.library.commit(video.id, by: bench.key)
        bench.state.plan.fail(.end, with: UploadError(.unavailable, "The database is away."))
        await #expect(throws: LanternFailure.self) { try await bench.library.delete(video.id, by: bench.key) }
        await #expect(throws: LanternFailure.noVideo) { try await bench.library.video(video.id, by: bench.key) }
        bench.state.plan.recover()
        #expect(try await bench.library.finish(FailingRecords()))
        #expect(try await bench.state.upload(upload.id)?.isAlive != true)
        #expect(try await bench.state.record(LanternVideo.recordKind, video.id) == nil)
        let events = try await bench.state.records(LanternEvent.recordKind, prefix: "", after: nil, limit: 9)
        #expect(events.map(\.key) == ["\(video.id)/1-committed", "\(video.id)/2-deleted"])
    }
}

/// The library over a state in memory.
private struct LibraryBench {
    let clock = ManualClock()
    let state: FaultyState
    let library: LanternLibrary
    let key: APIKey

    init() {
        state = FaultyState(InMemoryState(clock: clock))
        key = APIKey(
            id: "k",
            name: "k",
            scopes: Set(Scope.allCases),
            createdAt: clock.now,
            digest: [UInt8](repeating: 1, count: 32)
        )
        let services = UploadServices(
            state: state,
            storage: InMemoryStorage(),
            clock: clock,
            limits: UploadLimits().patient,
            observer: RecordingObserver()
        )
        library = LanternLibrary(records: state, uploads: services.uploads, clock: clock, lifetime: 60)
    }

    /// A video without bytes: all of them are there.
    func begin() async throws -> (LanternVideo, Upload) {
        try await library.begin(LanternVideo.New(title: "x", size: 0), by: key)
    }
}
