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
            try await bench.events.remove(try #require(claimed.first).record.record.key)
        }
        #expect(sizes.prefix(3) == [3, 1, 2])
        #expect(try await bench.count(ApsaraEvent.recordKind) == 0)
    }

    @Test("an event that is refused delays the later ones of its media, and no others")
    func refused() async throws {
        let bench = try await ApsaraBench.telling()
        let first = try await bench.made()
        bench.clock.advance(by: 1)
        try await bench.replace([1], of: first)
        bench.clock.advance(by: 1)
        let second = try await bench.made()
        let claimed = try await bench.claim()
        try #require(claimed.map(\.record.content.mediaID) == [first.id, second.id])
        try await bench.events.postpone(claimed[0], by: 3_600_000)
        try await bench.events.remove(claimed[1].record.record.key)
        bench.clock.advance(by: 1)
        try await bench.replace([1], of: second)
        bench.clock.advance(by: 60)
        #expect(try await bench.deliver().map(\.mediaID) == [second.id])
        bench.clock.advance(by: 3600)
        #expect(try await bench.deliver().map(\.size) == [3, 1])
    }

    @Test("many events of one media do not keep those of others from being claimed")
    func pages() async throws {
        let bench = try await ApsaraBench.telling()
        let media = try await bench.made()
        for number in 0..<250 {
            var changed = media
            changed.content?.objectID = "x\(number)"
            #expect(try await bench.state.apply(try await bench.events.recording(.stored, of: changed)))
        }
        bench.clock.advance(by: 1)
        let other = try await bench.made()
        #expect(try await bench.claim().map(\.record.content.mediaID) == [media.id, other.id])
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

    @Test("a claim ends, and the event is due again, the oldest media first")
    func claimsEnd() async throws {
        let bench = try await ApsaraBench.telling()
        var ids: [String] = []
        for _ in 0..<3 {
            ids.append(try await bench.made().id)
            bench.clock.advance(by: 1)
        }
        #expect(try await bench.claim(limit: 4).map(\.record.content.mediaID) == Array(ids.prefix(2)))
        #expect(try await bench.claim().map(\.record.content.mediaID) == [ids[2]])
        bench.clock.advance(by: 14)
        #expect(try await bench.claim().isEmpty)
        bench.clock.advance(by: 1)
        let again = try await bench.claim()
        #expect(again.map(\.record.content.mediaID) == ids)
        #expect(again.map(\.record.content.attempts) == [2, 2, 2])
        #expect(again.allSatisfy { $0.callback.url == ApsaraBench.url })
    }

    @Test("an event that cannot be read keeps no other from being claimed, and those that are not due are not read")
    func badEvents() async throws {
        let bench = try await ApsaraBench.telling()
        for _ in 0..<3 {
            bench.clock.advance(by: 1)
            let media = try await bench.made()
            bench.clock.advance(by: 1)
            try await bench.replace([1], of: media)
        }
        var records = try await bench.state.records(ApsaraEvent.recordKind, prefix: "", after: nil, limit: 9)
        try #require(records.count == 6)
        records[0].text = "{}"
        #expect(try await bench.state.replace(records[0]))
        let claimed = try await bench.claim().map(\.record.record.key)
        #expect(claimed == [records[1].key, records[2].key, records[4].key])
        for index in [3, 5] { try await bench.events.remove(records[index].key) }
        let before = bench.state.plan.calls(of: .dialectRecords)
        #expect(try await bench.claim().isEmpty)
        // Those of earlier versions, and a page with the one that cannot be read.
        #expect(bench.state.plan.calls(of: .dialectRecords) - before == 2)
    }

    @Test("half of what is claimed at once is for one host, so that others are told, too")
    func hosts() async throws {
        let bench = try await ApsaraBench.telling()
        try await bench.want(["ALL"], of: "app-2")
        func made(_ url: String?) async throws -> String {
            let userData = url.map { #"{"MessageCallback": {"CallbackURL": "\#($0)"}}"# }
            bench.clock.advance(by: 1)
            return try await bench.made { $0.labels.userData = userData }.id
        }
        var silent: [String] = []
        for number in 0..<20 { silent.append(try await made("https://silent.example/\(number)")) }
        let others = [try await made(nil), try await made(nil)]
        let claimed = try await bench.claim(limit: 16).map(\.record.content.mediaID)
        #expect(claimed == Array(silent.prefix(8)) + others)
        #expect(try await bench.claim(limit: 16).map(\.record.content.mediaID) == Array(silent[8..<16]))
        #expect(try await bench.claim(limit: 16).map(\.record.content.mediaID) == Array(silent[16...]))
    }

    @Test("many events of one user keep nobody waiting")
    func turns() async throws {
        let bench = try await ApsaraBench.telling()
        func made(_ user: String) async throws -> String {
            bench.clock.advance(by: 1)
            return try await bench.made { $0.subject = user }.id
        }
        for _ in 0..<20 { _ = try await made("dora") }
        let erin = try await made("erin")
        let claimed = try await bench.claim(limit: 8).map(\.record.content)
        #expect(claimed.filter { $0.mediaID == erin }.map(\.subject) == ["erin"])
    }

    @Test("an attempt that failed is repeated at its time, unless another node has claimed its event since")
    func postponing() async throws {
        let bench = try await ApsaraBench.telling()
        _ = try await bench.made()
        let old = try #require(try await bench.claim().first)
        try await bench.events.postpone(old, by: 5000)
        bench.clock.advance(by: 4)
        #expect(try await bench.claim().isEmpty)
        bench.clock.advance(by: 1)
        let new = try #require(try await bench.claim().first)
        #expect(new.record.content.attempts == 2)
        try await bench.events.postpone(old, by: 0)
        #expect(try await bench.claim().isEmpty)
        bench.clock.advance(by: 15)
        #expect(try await bench.claim().count == 1)
    }

    @Test("an event is kept for four days, however often it is tried, and then delays nothing")
    func retention() async throws {
        let bench = try await ApsaraBench.telling()
        let media = try await bench.made()
        bench.clock.advance(by: 10)
        try await bench.replace([1], of: media)
        bench.clock.advance(by: 4 * day - 11)
        let claimed = try await bench.claim()
        try #require(claimed.map(\.record.content.size) == [3])
        try await bench.events.postpone(claimed[0], by: 0)
        bench.clock.advance(by: 1)
        #expect(try await bench.claim().map(\.record.content.size) == [1])
        try await bench.state.forgetRecords(expiredBefore: bench.clock.now + 1)
        #expect(try await bench.count(ApsaraEvent.recordKind) == 1)
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
        let found = try await bench.events.look(limit: 1, of: 16, for: 15_000, failing: failing)
        #expect(found.claimed.map(\.record.content.mediaID) == [made[3].id] && found.failure != nil)
        #expect(failing.count == 3)
        let next = try await bench.events.look(after: found.last, limit: 16, of: 16, for: 15_000, failing: failing)
        #expect(next.claimed.map(\.record.content.mediaID) == [made[4].id] && next.failure == nil)
        #expect(next.last == nil)
    }

    private static let first = ApsaraBench.application

    @Test("half of the places are for one host, also of what is being sent already")
    func hostsBesideOthers() async throws {
        let bench = try await ApsaraBench.telling()
        for _ in 0..<8 {
            _ = try await bench.made()
            bench.clock.advance(by: 1)
        }
        let host = ApsaraEvents.Claimed.host(of: ApsaraBench.url)
        for (running, count) in [(8, 0), (6, 2), (0, 6)] {
            let failing = FailingRecords()
            let found = try await bench.events.look(
                limit: 8,
                of: 16,
                beside: [host: running],
                for: 3_600_000,
                failing: failing
            )
            #expect(found.claimed.count == count)
        }
    }

    @Test("events of one media stay in their order where a look goes on behind its first one")
    func orderBehind() async throws {
        let bench = try await ApsaraBench.telling()
        let first = try await bench.made()
        bench.clock.advance(by: 1)
        try await bench.replace([1], of: first)
        let found = try await bench.events.look(limit: 1, of: 16, for: 15_000, failing: FailingRecords())
        let next = try await bench.events.look(
            after: found.last,
            limit: 1,
            of: 16,
            for: 15_000,
            failing: FailingRecords()
        )
        #expect(found.claimed.count == 1 && next.claimed.isEmpty)
    }

    // MARK: Delivering

    @Test("an app that does not answer keeps the events of others from nothing")
    func silent() async throws {
        let bench = try await ApsaraBench.telling()
        for number in 0..<60 {
            let url = number < 20 ? "https://silent.example/x" : "https://app.example/x"
            bench.clock.advance(by: 1)
            _ = try await bench.made {
                $0.labels.userData = #"{"MessageCallback": {"CallbackURL": "\#(url)"}}"#
            }
        }
        let receiver = HalfSilentReceiver(base: bench.receiver)
        try await delivering(bench, to: receiver) { try await bench.count(ApsaraEvent.recordKind) == 20 }
        #expect(bench.receiver.calls.count == 40)
    }

    /// One that does not answer calls of one host as long as the test runs.
    private struct HalfSilentReceiver: CallbackSender {
        let base: EventReceiver

        func problem(with url: String) -> CallbackURLProblem? { nil }

        func mayName(host: String) -> Bool { true }

        func send(_ message: CallbackMessage, to url: String) async throws(CallbackFailure) -> CallbackResponse {
            guard url.hasPrefix("https://silent.example") else { return try await base.send(message, to: url) }
            await EventBell().wait(after: 0, timeout: .seconds(3600))
            throw .timedOut
        }

        func ended(_ failure: CallbackFailure?) {}
    }

    @Test("pauses are a second each between the first three attempts, and then double up to an hour")
    func pauses() {
        let pauses = (1...15).map { ApsaraEventDelivery.pause(after: $0) / 1000 }
        #expect(pauses == [1, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 3600])
        for attempts in [Int.min, -1, 0] { #expect(ApsaraEventDelivery.pause(after: attempts) == 1000) }
        for attempts in [63, 64, 65, 1 << 40, .max] {
            #expect(ApsaraEventDelivery.pause(after: attempts) == 3_600_000)
        }
    }

    private func delivery(_ bench: ApsaraBench, _ receiver: (any CallbackSender)? = nil) -> ApsaraEventDelivery {
        ApsaraEventDelivery(
            events: bench.events,
            callbacks: bench.callbacks,
            sender: receiver ?? bench.receiver,
            objectURL: { bucket, key in "https://oss.example/\(bucket)/\(key)" },
            counters: MetricsRegistry().counters("x_total", "Xs.", by: "outcome"),
            failing: FailingRecords(),
            report: { _ in }
        )
    }

    /// Delivers until a condition holds.
    private func delivering(
        _ bench: ApsaraBench,
        to receiver: (any CallbackSender)? = nil,
        until isOver: @escaping @Sendable () async throws -> Bool
    ) async throws {
        let delivery = delivery(bench, receiver)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await delivery.run() }
            while try await !isOver() { try await Task.sleep(for: .milliseconds(1)) }
            group.cancelAll()
            try await group.waitForAll()
        }
    }

    @Test("a post is signed, and succeeds with status 200 only", arguments: [200, 201, 204, 302, 500, nil])
    func posting(_ status: Int?) async throws {
        let bench = try ApsaraBench()
        try await bench.want(["ALL"], signedWith: "secret")
        let media = try await bench.made()
        bench.receiver.respond { _ in status }
        try await delivering(bench) {
            let records = try await bench.state.records(ApsaraEvent.recordKind, prefix: "", after: nil, limit: 10)
            guard let record = records.first else { return true }
            return try CodedRecord<ApsaraEvent>(record).content.dueAt == bench.clock.now.unixMilliseconds + 1000
        }
        #expect(try await bench.count(ApsaraEvent.recordKind) == (status == 200 ? 0 : 1))
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
        try await delivering(bench) { try await bench.count(ApsaraEvent.recordKind) == 0 }
        let call = try #require(bench.receiver.calls.first)
        #expect(call.url == "https://own.example/x" && call.message.fields.isEmpty)
        #expect(call.content.contains(#""Extend":"{\"a\":1}""#))
    }

    @Test("an event whose host is no longer allowed is not posted, and kept")
    func forbiddenHost() async throws {
        let bench = try await ApsaraBench.telling()
        try await bench.callbacks.set(
            ApsaraCallback(url: "https://app.other/x", types: ["ALL"], isSigned: false, key: ""),
            of: application
        )
        _ = try await bench.made()
        try await delivering(bench) {
            let records = try await bench.state.records(ApsaraEvent.recordKind, prefix: "", after: nil, limit: 10)
            let record = try #require(records.first)
            return try CodedRecord<ApsaraEvent>(record).content.dueAt == bench.clock.now.unixMilliseconds + 1000
        }
        #expect(bench.receiver.calls.isEmpty)
    }

    @Test("events of one media are posted in their order, each once")
    func posts() async throws {
        let bench = try await ApsaraBench.telling()
        var ids: [String] = []
        for _ in 0..<5 {
            let media = try await bench.made()
            ids.append(media.id)
            for size in 1...3 {
                bench.clock.advance(by: 0.01)
                try await bench.replace([UInt8](repeating: 0, count: size), of: media)
            }
            try await bench.library.delete(media.id, hasEvent: true)
        }
        try await delivering(bench) { try await bench.count(ApsaraEvent.recordKind) == 0 }
        for id in ids {
            let posts = bench.receiver.calls.filter { $0.content.contains(id) }.map(\.content)
            #expect(posts.count == 5)
            for (post, size) in zip(posts, [3, 1, 2, 3]) { #expect(post.contains(#""Size":\#(size)"#)) }
            #expect(posts.last?.contains("DeleteMediaComplete") == true)
        }
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
        let delivery = delivery(try ApsaraBench())
        func text(_ event: ApsaraEvent) -> String { String(decoding: delivery.document(of: event).json, as: UTF8.self) }
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
