import Bytes
import CloudCalls
import Foundation
import MetricsKit
import ObjectStore
import SluiceTesting
import Synchronization
import Testing
import UploadCore
import UploadModel

@testable import AliyunVOD
@testable import VODKit

@Suite("Events of ApsaraVideo VOD", .timeLimit(.minutes(10)))
struct ApsaraEventsTests {
    private let day = ApsaraBench.day
    private let application = ApsaraBench.application

    // MARK: Recording

    @Test("an event is recorded only if its application wants its type")
    func wanted() async throws {
        for (types, isRecorded) in [
            (nil, false), (["ALL"], true), (["FileUploadComplete"], true), (["ImageUploadComplete"], false),
            (["x", "FileUploadComplete"], true),
        ] as [([String]?, Bool)] {
            let bench = try ApsaraBench()
            try await bench.want(types)
            try await bench.want(["ALL"], of: "app-2")
            let media = try await bench.made()
            #expect(try await bench.count(ApsaraEvent.recordKind) == (isRecorded ? 1 : 0), "\(types ?? [])")
            try await bench.library.delete(media.id, hasEvent: true)
            let isDeletionRecorded = types == ["ALL"]
            #expect(
                try await bench.count(ApsaraEvent.recordKind) == (isRecorded ? 1 : 0) + (isDeletionRecorded ? 1 : 0)
            )
            // Recording later what nobody wanted changes nothing.
            try await bench.want(["ALL"])
            try await bench.look()
        }
    }

    @Test(
        "the kind of media decides about the type of the event",
        arguments: [
            (ApsaraMedia.Kind.video, "FileUploadComplete"), (.image, "ImageUploadComplete"),
            (.attached, "AttachedMediaUploadComplete"),
        ]
    )
    func types(_ kind: ApsaraMedia.Kind, _ type: String) async throws {
        let bench = try ApsaraBench()
        try await bench.want([type])
        _ = try await bench.made { $0.kind = kind }
        #expect(try await bench.deliver().map(\.type) == [type])
    }

    @Test("a second record of an event changes nothing, and a deletion has one event")
    func repeated() async throws {
        let bench = try await ApsaraBench.telling()
        let media = try await bench.made()
        let before = try await bench.state.records(ApsaraEvent.recordKind, prefix: "", after: nil, limit: 9)
        bench.clock.advance(by: 5)
        #expect(try await bench.state.apply(try await bench.events.recording(.stored, of: media)))
        #expect(try await bench.state.records(ApsaraEvent.recordKind, prefix: "", after: nil, limit: 9) == before)
        for _ in 0..<2 {
            #expect(try await bench.state.apply(try await bench.events.recording(.deleted, of: media)))
            bench.clock.advance(by: 5)
        }
        #expect(try await bench.count(ApsaraEvent.recordKind) == 2)
    }

    @Test("a callback that is removed removes what was not delivered")
    func unwanted() async throws {
        let bench = try await ApsaraBench.telling()
        _ = try await bench.made()
        try await bench.want(nil)
        #expect(try await bench.deliver().isEmpty)
        #expect(try await bench.count(ApsaraEvent.recordKind) == 0)
    }

    @Test("the record of an event is that of earlier versions")
    func format() async throws {
        let bench = try await ApsaraBench.telling()
        let media = try await bench.made { $0.subject = "dora" }
        let stored = try #require(media.content)
        let claimed = try #require(try await bench.claim().first)
        let record = try #require(try await bench.state.record("aliyun event", claimed.record.record.key))
        #expect(record.key == "\(media.id)/1/00\(stored.storedAt)/1/\(stored.objectID)")
        let fields = try #require(JSONSerialization.jsonObject(with: Data(record.text.utf8)) as? [String: Any])
        let names = "application at attempts bucket dueAt key kind mediaID mediaKind size subject"
        #expect(fields.keys.sorted().joined(separator: " ") == names)
        let end = bench.clock.now.unixMilliseconds + 20_000
        #expect(claimed.event.dueAt == end)
        #expect(Set(claimed.record.record.terms ?? []) == Set(["due", "user/dora"].map { DialectTerm($0, at: end) }))
    }

    // MARK: Order

    @Test("events of one media are claimed one after another, in their order, the deletion last")
    func order() async throws {
        let bench = try await ApsaraBench.telling()
        let media = try await bench.made()
        for size in [1, 2] {
            bench.clock.advance(by: 1)
            try await bench.replace([UInt8](repeating: 1, count: size), of: media)
        }
        // The clock of the node that deletes is behind.
        bench.clock.advance(by: -3600)
        try await bench.library.delete(media.id, hasEvent: true)
        bench.clock.advance(by: 3600)
        var sizes: [Int64] = []
        for _ in 0..<4 {
            let claimed = try await bench.claim()
            #expect(claimed.count == 1)
            #expect(try await bench.claim().isEmpty)
            let event = try #require(claimed.first?.record.content)
            #expect((event.kind == .deleted) == (sizes.count == 3))
            sizes.append(event.size)
            try await bench.events.outbox.remove(try #require(claimed.first).record.record.key)
        }
        #expect(sizes.prefix(3) == [3, 1, 2])
        #expect(try await bench.count(ApsaraEvent.recordKind) == 0)
    }

    @Test("nothing is told of media after its deletion was told")
    func nothingAfterDeletion() async throws {
        let told = Box<[String]>()
        try await ApsaraBench.interleaved(
            { bench in
                let media = try await bench.begin()
                told.set([])
                try await bench.put(of: media)
                return media
            },
            { bench, media in await bench.library.stored(media.name) },
            { bench, media in
                try await bench.library.delete(media.id, hasEvent: true)
                let types = try await bench.deliver().map(\.type)
                told.set(try told.content() + types)
            },
            { bench, _, number in
                let types = try await bench.deliver().map(\.type)
                let all = try told.content() + types
                #expect(all.last == "DeleteMediaComplete", "\(number) \(all)")
                #expect(try await bench.keys().isEmpty)
            }
        )
    }

    // MARK: Claiming

    @Test("an event that a node of an earlier version recorded first is delivered only after what it tells of")
    func afterRecording() async throws {
        let bench = try await ApsaraBench.telling()
        let media = try await bench.begin()
        try await bench.put(of: media)
        let object = try #require(try await bench.services.objects.object(media.name))
        var stored = media
        stored.content = ApsaraMedia.Content(
            objectID: object.id.text,
            size: object.size,
            storedAt: object.createdAt.unixMilliseconds
        )
        #expect(try await bench.state.apply(try await bench.events.recording(.stored, of: stored)))
        #expect(try await bench.claim().isEmpty)
        try await bench.look()
        #expect(bench.events.bell.count == 1)
        #expect(try await bench.deliver().map(\.type) == ["FileUploadComplete"])

        #expect(try await bench.state.apply(try await bench.events.recording(.deleted, of: media)))
        #expect(try await bench.claim().isEmpty)
        try await bench.library.delete(media.id, hasEvent: true)
        #expect(try await bench.deliver().map(\.type) == ["DeleteMediaComplete"])
    }

    @Test("a change whose event cannot be recorded is not made, and the next look makes it with its event")
    func together() async throws {
        let bench = try await ApsaraBench.telling()
        let media = try await bench.begin()
        try await bench.put(of: media)
        bench.state.plan.fail(.applyChanges)
        await bench.library.stored(media.name)
        #expect(try await bench.recorded(media.id)?.content == nil)
        #expect(try await bench.count(ApsaraEvent.recordKind) == 0)
        #expect(bench.events.bell.count == 0)
        try await bench.look()
        #expect(bench.events.bell.count == 1)
        #expect(try await bench.deliver().count == 1)
    }

    @Test("an event, a callback and media that cannot be read keep no other event waiting")
    func unreadable() async throws {
        let bench = try await ApsaraBench.telling()
        try await bench.want(["ALL"], of: "app-2")
        var made: [ApsaraMedia] = []
        for application in [Self.first, "app-2", Self.first, Self.first, Self.first] {
            made.append(try await bench.made { $0.application = application })
            bench.clock.advance(by: 1)
        }
        let events = try await bench.state.records(ApsaraEvent.recordKind, prefix: "", after: nil, limit: 10)
        try await bench.spoil(ApsaraEvent.recordKind, events[0].key)
        try await bench.spoil(ApsaraCallback.recordKind, "app-2")
        try await bench.spoil(ApsaraMedia.recordKind, made[2].id)
        let failing = FailingRecords(clock: bench.clock) { _ in }
        let outbox = bench.events.outbox
        let found = try await outbox.claim(limit: 1, failing: failing, bench.events.target)
        #expect(found.claimed.map(\.record.content.mediaID) == [made[3].id] && found.failure != nil)
        #expect(failing.count == 3)
        let next = try await outbox.claim(after: found.last, limit: 16, failing: failing, bench.events.target)
        #expect(next.claimed.map(\.record.content.mediaID) == [made[4].id] && next.failure == nil)
        #expect(next.last == nil)
    }

    private static let first = ApsaraBench.application

    // MARK: Delivering

    private func poster(_ bench: ApsaraBench) -> ApsaraEventPoster {
        ApsaraEventPoster(
            callbacks: bench.callbacks,
            sender: bench.receiver,
            objectURL: { bucket, key in "https://oss.example/\(bucket)/\(key)" },
            clock: bench.clock
        )
    }

    @Test("a post is signed, and succeeds with status 200 only", arguments: [200, 201, 204, 302, 500, nil])
    func posting(_ status: Int?) async throws {
        let bench = try ApsaraBench()
        try await bench.want(["ALL"], signedWith: "secret")
        let media = try await bench.made()
        bench.receiver.respond { _ in status }
        let claimed = try #require(try await bench.claim().first)
        var isDelivered = true
        do throws(DeliveryFailure) { try await poster(bench).post(claimed) } catch { isDelivered = false }
        #expect(isDelivered == (status == 200))
        #expect(bench.receiver.calls.count == 1)
        let call = try #require(bench.receiver.calls.first)
        let time = bench.clock.now.unixSeconds
        #expect(call.url == ApsaraBench.url && call.message.contentType == "application/json")
        #expect(call.field("X-VOD-TIMESTAMP") == String(time))
        let fields = ApsaraCallback.fields(url: ApsaraBench.url, key: "secret", at: time)
        #expect(call.field("X-VOD-SIGNATURE") == fields.last?.value)
        #expect(call.content.contains(media.id))
        #expect(call.message.id.hasPrefix("msg_\(media.id)"))
    }

    @Test("a post without AuthSwitch has no fields of its own, and goes to the URL of the media if it has one")
    func ownURL() async throws {
        let bench = try await ApsaraBench.telling()
        _ = try await bench.made { new in
            new.labels.userData = #"{"MessageCallback": {"CallbackURL": "https://own.example/x"}, "Extend": {"a": 1}}"#
        }
        let claimed = try #require(try await bench.claim().first)
        #expect(claimed.details.host == "own.example")
        try await poster(bench).post(claimed)
        let call = try #require(bench.receiver.calls.first)
        #expect(call.url == "https://own.example/x" && call.message.fields.isEmpty)
        #expect(call.content.contains(#""Extend":"{\"a\":1}""#))
    }

    @Test("an event whose host is no longer allowed is not posted")
    func forbiddenHost() async throws {
        let bench = try await ApsaraBench.telling()
        try await bench.callbacks.set(
            ApsaraCallback(url: "https://app.other/x", types: ["ALL"], isSigned: false, key: ""),
            of: application
        )
        _ = try await bench.made()
        let claimed = try #require(try await bench.claim().first)
        await #expect(throws: DeliveryFailure.self) { try await poster(bench).post(claimed) }
        #expect(bench.receiver.calls.isEmpty)
    }

    // MARK: Documents

    private func event(_ kind: ApsaraEvent.Kind, _ media: ApsaraMedia.Kind) -> ApsaraEvent {
        ApsaraEvent(
            kind: kind,
            mediaID: "0123456789abcdef0123456789abcdef",
            mediaKind: media,
            application: "app-1000000",
            bucket: "b",
            key: "app-1000000/sv/0123456789abcdef0123456789abcdef.mp4",
            size: 1_439_213,
            at: 1_490_003_357_999
        )
    }

    @Test("each event is the vendor's document")
    func documents() throws {
        let poster = poster(try ApsaraBench())
        func text(_ event: ApsaraEvent) -> String { String(decoding: poster.document(of: event).json, as: UTF8.self) }
        let id = "0123456789abcdef0123456789abcdef"
        let url = "https://oss.example/b/app-1000000/sv/\(id).mp4"
        let time = "2017-03-20T09:49:17Z"
        var video = event(.stored, .video)
        #expect(
            text(video)
                == #"{"AppId":"app-1000000","EventTime":"\#(time)","EventType":"FileUploadComplete","FileUrl":"\#(url)","Size":1439213,"Status":"success","VideoId":"\#(id)"}"#
        )
        video.extend = #"{"a":"ü/"}"#
        #expect(
            text(video)
                == #"{"AppId":"app-1000000","EventTime":"\#(time)","EventType":"FileUploadComplete","Extend":"{\"a\":\"ü/\"}","FileUrl":"\#(url)","Size":1439213,"Status":"success","VideoId":"\#(id)"}"#
        )
        #expect(
            text(event(.stored, .image))
                == #"{"AppId":"app-1000000","EventTime":"\#(time)","EventType":"ImageUploadComplete","FileURL":"\#(url)","ImageId":"\#(id)","Size":1439213,"Status":"success"}"#
        )
        #expect(
            text(event(.stored, .attached))
                == #"{"AppId":"app-1000000","AttachedMediaId":"\#(id)","EventTime":"\#(time)","EventType":"AttachedMediaUploadComplete","FileURL":"\#(url)","Size":1439213,"Status":"success"}"#
        )
        for (kind, name) in [(ApsaraMedia.Kind.video, "video"), (.image, "image"), (.attached, "attached")] {
            #expect(
                text(event(.deleted, kind))
                    == #"{"AppId":"app-1000000","DeleteType":"all","EventTime":"\#(time)","EventType":"DeleteMediaComplete","MediaId":"\#(id)","MediaType":"\#(name)","Status":"success"}"#
            )
        }
        var pulled = event(.pulled, .video)
        pulled.pull = ApsaraEvent.Pull(jobID: "j", url: "https://o.example/v.mp4", failure: nil)
        #expect(
            text(pulled)
                == #"{"AppId":"app-1000000","EventTime":"\#(time)","EventType":"UploadByURLComplete","JobId":"j","SourceURL":"https://o.example/v.mp4","Status":"success","VideoId":"\#(id)"}"#
        )
        pulled.pull?.failure = ApsaraPull.Failure(code: "FileDownloadFailed", message: "no route")
        #expect(
            text(pulled)
                == #"{"AppId":"app-1000000","ErrorCode":"FileDownloadFailed","ErrorMessage":"no route","EventTime":"\#(time)","EventType":"UploadByURLComplete","JobId":"j","SourceURL":"https://o.example/v.mp4","Status":"fail"}"#
        )
    }

    // MARK: Authentication

    @Test("the signature is the vendor's vector")
    func signature() {
        let fields = ApsaraCallback.fields(
            url: "https://www.example.com/your/callback",
            key: "test123",
            at: 1_519_375_990
        )
        #expect(
            fields == [
                CallbackMessage.Field("X-VOD-TIMESTAMP", "1519375990"),
                CallbackMessage.Field("X-VOD-SIGNATURE", "c72b60894140fa98920f1279219b7ed4"),
            ]
        )
    }

    @Test("the key is sealed in the record, and opens with the secret of the installation only")
    func sealed() async throws {
        let bench = try ApsaraBench()
        try await bench.want(["ALL"], signedWith: "test123")
        let record = try #require(try await bench.state.record(ApsaraCallback.recordKind, application))
        #expect(!record.text.contains("test123") && !record.text.contains(Base64.encode(Array("test123".utf8))))
        let callback = try #require(try await bench.callbacks.callback(of: application))
        #expect(bench.callbacks.open(callback.key) == "test123")
        #expect(bench.callbacks.seal("test123") != callback.key)
        #expect(bench.callbacks.seal("").isEmpty)
        for text in ["", "x", String(callback.key.dropLast()), "test123"] {
            #expect(bench.callbacks.open(text).isEmpty)
        }
    }

    @Test("callbacks that are set at once, or again, replace each other")
    func setting() async throws {
        let bench = try ApsaraBench()
        for types in [["ALL"], ["FileUploadComplete"], nil, nil, ["ALL"]] {
            try await bench.want(types)
            #expect(try await bench.callbacks.callback(of: application)?.types == types)
        }
        bench.state.plan.before(.replaceRecord) { await noted { try await bench.want(["a"]) } }
        try await bench.want(["b"])
        #expect(try await bench.callbacks.callback(of: application)?.types == ["b"])
        bench.state.plan.before(.insertRecord) { await noted { try await bench.want(nil) } }
        try await bench.want(["c"])
        #expect(try await bench.callbacks.callback(of: application)?.types == ["c"])
        #expect(try await bench.callbacks.callback(of: "app-2") == nil)
    }

    // MARK: UserData

    @Test(
        "UserData gives Extend as JSON, and a URL of its own",
        arguments: [
            (#"{}"#, nil, nil), (#"{"Extend":"a b"}"#, "a b", nil), (#"{"Extend":""}"#, "", nil),
            (#"{"Extend":{"b":1,"a":[true,null]}}"#, #"{"a":[true,null],"b":1}"#, nil),
            (#"{"Extend":{"url":"a/b"}}"#, #"{"url":"a/b"}"#, nil),
            (#"{"MessageCallback":"{\"CallbackURL\":\"http://a.example\"}"}"#, nil, "http://a.example"),
            (#"{"MessageCallback":{"CallbackURL":"http://a.example","CallbackType":"http"}}"#, nil, "http://a.example"),
            (
                #"{"MessageCallback":{"CallbackURL":"http://a.example"},"AccelerateConfig":{"Type":"oss"}}"#, nil,
                "http://a.example"
            ),
        ] as [(String, String?, String?)]
    )
    func userData(_ text: String, _ extend: String?, _ url: String?) throws {
        let parsed = try #require(ApsaraUserData(text))
        #expect(parsed.extend == extend && parsed.callbackURL == url)
    }

    @Test(
        "UserData that is malformed or too long is refused",
        arguments: [
            "", "x", "[]", "null", "1", #""x""#, "{", #"{"MessageCallback":{}}"#, #"{"MessageCallback":"x"}"#,
            #"{"MessageCallback":{"CallbackURL":1}}"#,
            #"{"MessageCallback":{"CallbackURL":"http://a.example","CallbackType":"HTTP"}}"#,
            #"{"MessageCallback":{"CallbackURL":"http://a.example","CallbackType":"mns"}}"#,
            #"{"MessageCallback":{"CallbackURL":"http://a.example","CallbackType":1}}"#,
            String(repeating: "[", count: 100_000), String(repeating: #"{"a":"#, count: 10_000),
        ]
    )
    func wrongUserData(_ text: String) { #expect(ApsaraUserData(text) == nil) }

    @Test("UserData has the vendor's limits")
    func limits() {
        func user(extend count: Int) -> ApsaraUserData? {
            ApsaraUserData(#"{"Extend":"\#(String(repeating: "e", count: count))"}"#)
        }
        #expect(user(extend: 512) != nil && user(extend: 513) == nil)
        #expect(ApsaraUserData(#"{"Extend":"\#(String(repeating: "ü", count: 257))"}"#) == nil)
        func user(url count: Int) -> ApsaraUserData? {
            ApsaraUserData(#"{"MessageCallback":{"CallbackURL":"\#(String(repeating: "u", count: count))"}}"#)
        }
        #expect(user(url: 256) != nil && user(url: 257) == nil)
    }
}
