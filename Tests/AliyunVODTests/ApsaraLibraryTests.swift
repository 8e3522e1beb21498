import Foundation
import GatewayKit
import ObjectStore
import SluiceTesting
import Synchronization
import Testing
import UploadCore
import UploadModel

@testable import AliyunVOD
@testable import VODKit

/// Whoever records that the object of media is there.
enum Finder: CaseIterable, Sendable {
    case reader, request, look

    func find(_ media: ApsaraMedia, in bench: ApsaraBench) async throws {
        switch self {
        case .reader: _ = try await bench.library.media(media.id)
        case .request: await bench.library.stored(media.name)
        case .look: try await bench.library.lookAtOpen()
        }
    }
}

@Suite("Media of ApsaraVideo VOD", .timeLimit(.minutes(10)))
struct ApsaraLibraryTests {
    private let day = ApsaraBench.day
    /// Seconds for which an object can be stored after its media began.
    private let open: TimeInterval = 3000 + 3600

    // MARK: Completing

    @Test("media is complete once its object was put or completed in parts", arguments: Finder.allCases, [false, true])
    func completing(_ finder: Finder, inParts: Bool) async throws {
        let bench = try await ApsaraBench.telling()
        let media = try await bench.begin()
        try await finder.find(media, in: bench)
        #expect(try await bench.recorded(media.id) == media)
        bench.clock.advance(by: 10)
        if inParts { try await bench.putParts(of: media) } else { try await bench.put(of: media) }
        let storedAt = bench.clock.now
        bench.clock.advance(by: 10)
        #expect(try await bench.recorded(media.id)?.content == nil)
        for _ in 0..<2 { try await finder.find(media, in: bench) }
        let recorded = try #require(try await bench.recorded(media.id))
        let content = try #require(recorded.content)
        #expect(content.size == 3 && content.storedAt == storedAt.unixMilliseconds)
        #expect(content.md5 == (inParts ? nil : "5289df737df57326fcdd22597afb1fac"))
        #expect(content.objectID == (try await bench.services.objects.object(media.name)?.id.text))
        #expect(recorded.modifiedAt == storedAt.unixSeconds)
        #expect(bench.events.bell.count == 1)
        let events = try await bench.deliver()
        #expect(events.map(\.type) == ["FileUploadComplete"] && events[0].size == 3)
    }

    @Test("an object that is appended to does not make media complete", arguments: Finder.allCases)
    func appended(_ finder: Finder) async throws {
        let bench = try await ApsaraBench.telling()
        let media = try await bench.begin()
        try await bench.put(of: media, isAppendable: true)
        try await finder.find(media, in: bench)
        #expect(try await bench.recorded(media.id)?.content == nil)
        #expect(try await bench.deliver().isEmpty)
        // Replacing it completes.
        try await bench.put([1], of: media)
        try await finder.find(media, in: bench)
        #expect(try await bench.recorded(media.id)?.content?.size == 1)
    }

    @Test("an upload in parts that is not completed leaves media incomplete", arguments: Finder.allCases)
    func incomplete(_ finder: Finder) async throws {
        let bench = try await ApsaraBench.telling()
        let media = try await bench.begin()
        try await bench.putPart(1, [1, 2], of: try await bench.beginParts(of: media))
        try await finder.find(media, in: bench)
        #expect(try await bench.recorded(media.id)?.content == nil)
    }

    @Test("each of many that find the object at once sees it, and there is one event")
    func findersAtOnce() async throws {
        let bench = try await ApsaraBench.telling()
        let media = try await bench.begin()
        try await bench.put(of: media)
        bench.state.plan.pause { await Task.yield() }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for index in 0..<21 {
                group.addTask {
                    try await Finder.allCases[index % 3].find(media, in: bench)
                    #expect(try await bench.recorded(media.id)?.content != nil)
                }
            }
            try await group.waitForAll()
        }
        #expect(try await bench.count(ApsaraEvent.recordKind) == 1)
        #expect(bench.events.bell.count == 1)
    }

    @Test("a file that replaces another one after a refresh is noticed, with another event", arguments: Finder.allCases)
    func overwriting(_ finder: Finder) async throws {
        let bench = try await ApsaraBench.telling()
        let media = try await bench.made()
        bench.clock.advance(by: open + 1)
        try await bench.look()
        let issued = try #require(try await bench.refresh(media))
        #expect(issued.media.key == media.key && issued.media.id == media.id)
        bench.clock.advance(by: 5)
        try await bench.put([1, 2], of: media)
        try await finder.find(media, in: bench)
        let content = try #require(try await bench.recorded(media.id)?.content)
        #expect(content.size == 2 && content.objectID != media.content?.objectID)
        #expect(try await bench.deliver().map(\.size) == [3, 2])
        try await finder.find(media, in: bench)
        #expect(try await bench.deliver().isEmpty)
    }

    @Test("a file that replaces another one is noticed also if that takes longer than the credentials are valid")
    func slowOverwriting() async throws {
        for finder in [Finder.request, .look] {
            let bench = try await ApsaraBench.telling()
            let media = try await bench.made()
            #expect(try await bench.refresh(media) != nil)
            bench.clock.advance(by: open + 60)
            try await bench.put([1, 2], of: media)
            try await finder.find(media, in: bench)
            #expect(try await bench.recorded(media.id)?.content?.size == 2, "\(finder)")
            #expect(try await bench.deliver().map(\.size) == [3, 2], "\(finder)")
        }
    }

    @Test("events of a media are all delivered, although the clock of a node is behind", arguments: Finder.allCases)
    func clocks(_ finder: Finder) async throws {
        let bench = try await ApsaraBench.telling()
        let media = try await bench.begin()
        try await bench.send(of: media)
        bench.clock.advance(by: -60)
        #expect(try await bench.refresh(media) != nil)
        try await bench.put([1, 2], of: media)
        try await finder.find(media, in: bench)
        #expect(try await bench.deliver().map(\.size) == [3, 2])
    }

    // MARK: The death of the gateway

    @Test("wherever the gateway dies at the beginning, acknowledged media is there and its reference id is not stuck")
    func crashAtTheBeginning() async throws {
        try await ApsaraBench.afterEachCall { bench, calls in
            let (made, isOver) = await bench.dying(afterCalls: calls) { try await bench.begin(reference: "film-1") }
            try await bench.look()
            let holder = try await bench.holder(of: "film-1")
            if let made {
                #expect(try await bench.isThereAndOpen(made.id), "\(calls)")
                #expect(holder == made.id)
            }
            let isThere = if let holder { try await bench.isThere(holder) } else { false }
            let again = try await code { _ = try await bench.begin(reference: "film-1") }
            #expect(again == (isThere ? "InvalidReferenceId.Duplicated" : nil), "\(calls)")
            let last = try #require(try await bench.holder(of: "film-1"))
            #expect(try await bench.isThereAndOpen(last))
            #expect(try await bench.count(ApsaraMedia.recordKind) == 1, "\(calls)")
            // Whatever was never recorded is forgotten.
            bench.clock.advance(by: day + 1)
            try await bench.look()
            #expect(try await bench.count(ApsaraLibrary.openKind) == 1)
            return isOver
        }
    }

    @Test("wherever the gateway dies while it stores an object, the content is recorded, with one event")
    func crashWhileStoring() async throws {
        try await ApsaraBench.afterEachCall { bench, calls in
            let media = try await bench.begin()
            let (sent, isOver) = await bench.dying(afterCalls: calls) { () async throws -> Bool in
                try await bench.send(of: media)
                return true
            }
            // Nothing is told of content that is not recorded.
            let early = try await bench.deliver()
            let isRecorded = try await bench.recorded(media.id)?.content != nil
            #expect(early.count == (isRecorded ? 1 : 0), "\(calls)")
            try await bench.look()
            let isStored = try await !bench.keys().isEmpty
            if sent == true { #expect(isStored) }
            #expect((try await bench.recorded(media.id)?.content != nil) == isStored, "\(calls)")
            #expect(early.count + (try await bench.deliver().count) == (isStored ? 1 : 0), "\(calls)")
            return isOver
        }
    }

    @Test("wherever the gateway dies while it looks for content, the next look records it", arguments: [1, 3])
    func crashWhileLooking(count: Int) async throws {
        try await ApsaraBench.afterEachCall { bench, calls in
            for _ in 0..<count { try await bench.put(of: bench.begin()) }
            let (_, isOver) = await bench.dying(afterCalls: calls) { try await bench.look() }
            try await bench.look()
            #expect(try await bench.deliver().count == count, "\(calls)")
            return isOver
        }
    }

    @Test("wherever the gateway dies while a file replaces another one, the change is recorded, with another event")
    func crashWhileOverwriting() async throws {
        try await ApsaraBench.afterEachCall { bench, calls in
            let media = try await bench.made()
            _ = try await bench.refresh(media)
            bench.clock.advance(by: 1)
            let (_, isOver) = await bench.dying(afterCalls: calls) { try await bench.send([1, 2], of: media) }
            try await bench.look()
            let size = try await bench.services.objects.object(media.name)?.size
            #expect(try await bench.recorded(media.id)?.content?.size == size, "\(calls)")
            #expect(try await bench.deliver().map(\.size) == (size == 2 ? [3, 2] : [3]), "\(calls)")
            return isOver
        }
    }

    @Test("wherever the gateway dies while media is deleted, it is there with its object or for nobody")
    func crashWhileDeleting() async throws {
        for isComplete in [true, false] {
            try await ApsaraBench.afterEachCall { bench, calls in
                let media = try await bench.begin(reference: "film-1")
                if isComplete { try await bench.send(of: media) } else { _ = try await bench.beginParts(of: media) }
                let kept = try await bench.made()
                let (deleted, isOver) = await bench.dying(afterCalls: calls) { () async throws -> Bool in
                    try await bench.library.delete(media.id, hasEvent: true)
                    return true
                }
                let hasBegun = try await bench.count("aliyun removal") == 1 || deleted == true
                let isThere = try await bench.isThere(media.id)
                if isThere {
                    #expect(try await bench.keys().contains(media.key) == isComplete, "\(calls)")
                    #expect(try await bench.holder(of: "film-1") == media.id)
                }
                #expect(deleted == nil || !isThere)
                let early = try await bench.deliver().filter { $0.mediaID == media.id }.map(\.type)
                if isThere { #expect(!early.contains("DeleteMediaComplete"), "\(calls)") }

                try await bench.look()
                #expect(try await bench.isThere(media.id) == !hasBegun, "\(calls)")
                #expect(try await bench.count("aliyun removal") == 0)
                let types = early + (try await bench.deliver()).map(\.type)
                let stored = isComplete ? ["FileUploadComplete"] : []
                #expect(types == stored + (hasBegun ? ["DeleteMediaComplete"] : []), "\(calls)")
                if hasBegun { try await expectGone(media, in: bench, but: kept, "\(calls)") }
                #expect(try await bench.isThere(kept.id))
                return isOver
            }
        }
    }

    /// Expects that nothing is left of deleted media, neither now nor later.
    private func expectGone(
        _ media: ApsaraMedia,
        in bench: ApsaraBench,
        but kept: ApsaraMedia?,
        _ comment: Comment
    ) async throws {
        #expect(try await !bench.isThere(media.id), comment)
        #expect(try await bench.keys() == Set([kept?.key].compactMap { $0 }), comment)
        #expect(try await bench.library.openUploads(of: media).isEmpty, comment)
        let record = try #require(try await bench.library.record(media.id))
        #expect(record.content == record.content.remains && record.record.expiresAt != nil, comment)
        if let reference = media.labels.referenceID {
            #expect(try await bench.holder(of: reference) == nil, comment)
            #expect(try await bench.begin(reference: reference).id != media.id)
        }
        bench.clock.advance(by: open + 1)
        try await bench.look()
        #expect(try await !bench.isOpen(media.id), comment)
        bench.clock.advance(by: 2 * day)
        try await bench.state.forgetRecords(expiredBefore: bench.clock.now)
        #expect(try await bench.state.record(ApsaraMedia.recordKind, media.id) == nil, comment)
    }

    @Test("wherever the gateway dies in a refresh, media keeps its id, and what the credentials bring is found")
    func crashWhileRefreshing() async throws {
        try await ApsaraBench.afterEachCall { bench, calls in
            let media = try await bench.made()
            bench.clock.advance(by: open + 1)
            try await bench.look()
            #expect(try await !bench.isOpen(media.id))
            let (issued, isOver) = await bench.dying(afterCalls: calls) { try await bench.refresh(media) }
            #expect(try await bench.count(ApsaraMedia.recordKind) == 1)
            if let issued {
                #expect(try await bench.isOpen(media.id), "\(calls)")
                let end = try #require(issued).media.openUntil
                #expect(end == bench.clock.now.unixSeconds + Int64(open))
                try await bench.put([1], of: media)
                try await bench.look()
                #expect(try await bench.recorded(media.id)?.content?.size == 1, "\(calls)")
            }
            // The app asks again.
            #expect(try await bench.refresh(media) != nil)
            #expect(try await bench.isOpen(media.id))
            return isOver
        }
    }

    // MARK: Reference ids

    @Test("a reference id belongs to one media at a time, and another application has its own")
    func references() async throws {
        let bench = try await ApsaraBench.telling()
        let first = try await bench.begin(reference: "film-1")
        #expect(try await code { _ = try await bench.begin(reference: "film-1") } == "InvalidReferenceId.Duplicated")
        let other = try await bench.begin { new in
            new.labels.referenceID = "film-1"
            new.application = "app-2"
        }
        #expect(try await bench.holder(of: "film-1") == first.id)
        let ids = bench.library.ids
        #expect(try await ids("film-1", "app-2") == [other.id])
        #expect(try await ids("film-1", "app-3").isEmpty)
        // Without an application the default one comes first.
        _ = try await bench.begin(reference: "film-10")
        #expect(try await ids("film-1", nil) == [first.id, other.id])
        for application in ["app-2", nil] { #expect(try await ids("film\0", application).isEmpty) }
        bench.clock.advance(by: 100 * day)
        #expect(try await code { _ = try await bench.begin(reference: "film-1") } == "InvalidReferenceId.Duplicated")
        try await bench.library.delete(first.id, hasEvent: true)
        #expect(try await bench.begin(reference: "film-1").id != first.id)
        try await bench.library.delete(other.id, hasEvent: true)
        #expect(try await ids("film-1", "app-2").isEmpty)
        #expect(try await ids("film-1", nil) == [try await bench.holder(of: "film-1")])
    }

    @Test("media whose id is taken is refused, and leaves no reference id")
    func takenID() async throws {
        let bench = try await ApsaraBench.telling()
        for reference in [nil, "film-1"] {
            var media = try await bench.begin()
            media.labels.referenceID = reference
            bench.state.plan.pause { bench.clock.advance(by: 1) }
            let code = await #expect(throws: UploadError.self) { try await bench.library.insert(media, with: []) }?.code
            #expect(code == .unavailable)
            #expect(try await bench.holder(of: "film-1") == nil)
        }
    }

    @Test("of many that begin with one reference id at once, one has it, also where a gateway has left it")
    func referencesAtOnce() async throws {
        for isLeft in [false, true] {
            let bench = try await ApsaraBench.telling()
            if isLeft { try await bench.leave(reference: "film-1") }
            bench.state.plan.pause { for _ in 0..<3 { await Task.yield() } }
            let codes = try await withThrowingTaskGroup(of: String?.self) { group in
                for _ in 0..<20 {
                    group.addTask { try await code { _ = try await bench.begin(reference: "film-1") } }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(codes.count { $0 == nil } == 1, "\(isLeft)")
            #expect(codes.count { $0 == "InvalidReferenceId.Duplicated" } == 19, "\(isLeft)")
            let media = try await bench.state.records(ApsaraMedia.recordKind, prefix: "", after: nil, limit: 100)
            let holder = try await bench.holder(of: "film-1")
            #expect(media.map(\.key) == [holder], "\(isLeft)")
        }
    }

    @Test("wherever another upload takes over what a gateway left of a reference id, one of two has it")
    func takingOver() async throws {
        let codes = Box<[String?]>()
        try await ApsaraBench.interleaved(
            { bench in
                try await bench.leave(reference: "film-1")
                codes.set([])
            },
            { bench, _ in
                let first = try await code { _ = try await bench.begin(reference: "film-1") }
                codes.set(try codes.content() + [first])
            },
            { bench, _ in
                let second = try await code { _ = try await bench.begin(reference: "film-1") }
                codes.set(try codes.content() + [second])
            },
            { bench, _, number in
                let all = try codes.content()
                #expect(all.count { $0 == nil } == 1, "\(number)")
                #expect(try await bench.count(ApsaraMedia.recordKind) == 1, "\(number)")
                let holder = try #require(try await bench.holder(of: "film-1"))
                #expect(try await bench.isThere(holder), "\(number)")
            }
        )
    }

    // MARK: Changing

    @Test("changes at once are all made, and reporting nothing new writes nothing")
    func changesAtOnce() async throws {
        let bench = try await ApsaraBench.telling()
        let media = try await bench.made()
        @Sendable func add(_ tag: String) async throws -> ApsaraMedia? {
            try await bench.library.change(media.id) { $0.labels.tags.append(tag) }
        }
        bench.state.plan.before(.replaceRecord) { await noted { _ = try await add("first") } }
        #expect(try await add("second")?.labels.tags == ["first", "second"])
        let before = try await bench.library.record(media.id)?.record.version
        #expect(try await bench.library.change(media.id) { _ in } != nil)
        #expect(try await bench.library.record(media.id)?.record.version == before)
        #expect(try await bench.library.change("x") { _ in } == nil)
        #expect(try await bench.library.change(ApsaraMedia.newID(at: bench.clock.now)) { _ in } == nil)
    }

    @Test("ids that no media can have are not looked up")
    func ids() async throws {
        let bench = try await ApsaraBench.telling()
        let reads = bench.state.plan.calls(of: .dialectRecord)
        for id in ["", "x", "\0", String(repeating: "A", count: 32), String(repeating: "0", count: 33), "../a"] {
            #expect(try await bench.library.record(id) == nil)
            #expect(try await bench.library.media(id) == nil)
        }
        #expect(bench.state.plan.calls(of: .dialectRecord) == reads)
        var all: Set<String> = []
        for _ in 0..<1000 { all.insert(ApsaraMedia.newID(at: bench.clock.now)) }
        #expect(all.count == 1000 && all.allSatisfy(ApsaraMedia.isID))
        #expect(all.allSatisfy { ApsaraMedia.time(ofID: $0) == bench.clock.now.unixMilliseconds })
        for time in [Date.distantPast, .distantFuture] { #expect(ApsaraMedia.isID(ApsaraMedia.newID(at: time))) }
    }

    // MARK: Deleting

    @Test("nothing that a user wrote is kept of deleted media, and nothing of it is found")
    func remains() async throws {
        let bench = try await ApsaraBench.telling()
        let media = try await bench.made { new in
            new.fileName = "Secret.mp4"
            new.labels = ApsaraMedia.Labels(
                title: "Secret",
                description: "Secret",
                coverURL: "Secret",
                tags: ["Secret"],
                userData: #"{"Extend": "Secret"}"#,
                referenceID: "Secret"
            )
        }
        _ = try await bench.library.change(media.id) { $0.progress = .init(deviceModel: "Secret", address: "Secret") }
        try await bench.library.delete(media.id, hasEvent: true)
        let record = try #require(try await bench.library.record(media.id))
        #expect(record.content.isDeleted && !record.record.text.contains("Secret"))
        #expect(record.content.id == media.id && record.content.subject == media.subject)
        #expect(try await bench.library.change(media.id) { $0.labels.title = "x" } == nil)
        #expect(try await bench.refresh(media) == nil)
        #expect(try await bench.library.search(ApsaraQuery(), by: ApsaraBench.server).count == 0)
        try await bench.library.delete(media.id, hasEvent: true)
        #expect(try await bench.deliver().map(\.type) == ["FileUploadComplete", "DeleteMediaComplete"])
    }

    @Test("media that cannot be read keeps no other from being found")
    func searchBesideUnreadable() async throws {
        let bench = try ApsaraBench()
        var made: [ApsaraMedia] = []
        for _ in 0..<3 {
            made.append(try await bench.made())
            bench.clock.advance(by: 1)
        }
        try await bench.spoil(ApsaraMedia.recordKind, made[1].id)
        let found = try await bench.library.search(ApsaraQuery(), by: ApsaraBench.server)
        #expect(found.count == 2 && found.media.map(\.content.id) == [made[2].id, made[0].id])
    }

    @Test("the record of deleted media is kept until nothing can arrive any more")
    func retention() async throws {
        let bench = try await ApsaraBench.telling()
        let fresh = try await bench.begin()
        let old = try await bench.made()
        bench.clock.advance(by: 10 * day)
        let kept = try #require(try await bench.refresh(fresh)).media
        for media in [kept, old] {
            try await bench.library.delete(media.id, hasEvent: true)
            let end = try #require(try await bench.library.record(media.id)?.record.expiresAt)
            let last = max(media.openUntil, bench.clock.now.unixSeconds)
            #expect(end.unixSeconds == last + 86_400)
        }
    }

    @Test("deletions at once leave nothing, and make one event")
    func deletionsAtOnce() async throws {
        let bench = try await ApsaraBench.telling()
        let media = try await bench.made { $0.labels.referenceID = "film-1" }
        bench.state.plan.pause { await Task.yield() }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<10 { group.addTask { try await bench.library.delete(media.id, hasEvent: true) } }
            try await group.waitForAll()
        }
        #expect(try await bench.deliver().map(\.type) == ["FileUploadComplete", "DeleteMediaComplete"])
        #expect(try await bench.count("aliyun removal") == 0)
        try await expectGone(media, in: bench, but: nil, "at once")
    }

    @Test("uploads of other objects go on, although their keys begin like that of deleted media")
    func otherUploads() async throws {
        let bench = try await ApsaraBench.telling()
        let media = try await bench.begin()
        var other = media
        other.key += "x"
        _ = try await bench.beginParts(of: media)
        _ = try await bench.beginParts(of: other)
        try await bench.library.delete(media.id, hasEvent: true)
        #expect(try await bench.library.openUploads(of: media).isEmpty)
        #expect(try await bench.library.openUploads(of: other).count == 1)
    }

    @Test("deletions that were interrupted are finished, also if very many are waiting")
    func manyRemovals() async throws {
        let bench = try await ApsaraBench.telling()
        var made: [ApsaraMedia] = []
        for _ in 0..<120 { made.append(try await bench.begin()) }
        try await bench.put(of: made[110])
        for media in made {
            // It marks the media, and removes its object.
            bench.state.plan.fail(.applyChanges, onCall: 2)
            await #expect(throws: UploadError.self) { try await bench.library.delete(media.id, hasEvent: false) }
        }
        bench.fuse.burn(afterCalls: 20)
        await #expect(throws: UploadError.self) { try await bench.library.finishRemovals() }
        bench.fuse.replace()
        try await bench.library.finishRemovals()
        #expect(try await bench.count("aliyun removal") == 0)
        #expect(try await bench.keys().isEmpty)
    }

    @Test("a deletion that a gateway of an earlier version has only recorded is made, with its event or without")
    func recordedDeletion() async throws {
        for text in ["{}", ""] {
            let bench = try await ApsaraBench.telling()
            let media = try await bench.made()
            #expect(try await bench.deliver().count == 1)
            let now = bench.clock.now
            let record = DialectRecord(kind: "aliyun removal", key: media.id, text: text, createdAt: now)
            #expect(try await bench.state.insert(record, at: now))
            try await bench.look()
            #expect(try await bench.deliver().map(\.type) == (text.isEmpty ? [] : ["DeleteMediaComplete"]))
            #expect(try await bench.count("aliyun removal") == 0)
            try await expectGone(media, in: bench, but: nil, "\(text)")
        }
    }

    @Test("nothing comes to media after its deletion", arguments: Finder.allCases, [false, true])
    func afterDeletion(_ finder: Finder, inParts: Bool) async throws {
        let bench = try await ApsaraBench.telling()
        let media = try await bench.begin()
        try await bench.library.delete(media.id, hasEvent: true)
        // Its request was admitted before.
        let error = await #expect(throws: UploadError.self) {
            if inParts { try await bench.putParts(of: media) } else { try await bench.put(of: media) }
        }
        #expect(error?.code == .conditionFailed)
        #expect(try await bench.keys().isEmpty)
        try await finder.find(media, in: bench)
        bench.clock.advance(by: open)
        try await bench.look()
        #expect(try await bench.keys().isEmpty)
        #expect(try await bench.count(ApsaraLibrary.openKind) == 0)
        #expect(try await bench.deliver().map(\.type) == ["DeleteMediaComplete"])
    }

    @Test("the open record of deleted media is kept until its credentials have ended")
    func openAfterDeletion() async throws {
        let bench = try await ApsaraBench.telling()
        let media = try await bench.begin()
        try await bench.library.delete(media.id, hasEvent: true)
        bench.clock.advance(by: open - 1)
        try await bench.look()
        #expect(try await bench.isOpen(media.id))
        bench.clock.advance(by: 1)
        try await bench.look()
        #expect(try await !bench.isOpen(media.id))
    }

    @Test("an object is refused if it belongs to deleted media, and no other")
    func admitting() async throws {
        let bench = try await ApsaraBench.telling()
        let live = try await bench.begin()
        let complete = try await bench.made()
        let deleted = try await bench.made()
        try await bench.library.delete(deleted.id, hasEvent: true)
        let unknown = ApsaraMedia.newID(at: bench.clock.now)
        let bucket = bench.place.bucket
        let admitted = [
            live.name, complete.name, ObjectName(bucket: bucket, key: "app-1000000/sv/\(unknown).mp4"),
            ObjectName(bucket: "other", key: deleted.key), ObjectName(bucket: bucket, key: deleted.id),
            ObjectName(bucket: bucket, key: "x/\(deleted.key)"), ObjectName(bucket: bucket, key: "\(deleted.key)/x"),
            ObjectName(bucket: bucket, key: "a/b/x\(deleted.id).mp4"), ObjectName(bucket: bucket, key: ""),
            ObjectName(bucket: bucket, key: "//"),
        ]
        for (index, name) in admitted.enumerated() {
            let admission = try await bench.library.admit(name)
            #expect(admission == (index < 2 ? ObjectAdmission(keptFor: 30 * day, contentType: "video/mp4") : nil))
        }
        for isForgotten in [false, true] {
            let error = await #expect(throws: UploadError.self) { _ = try await bench.library.admit(deleted.name) }
            #expect(error?.code == .gone, "\(isForgotten)")
            bench.clock.advance(by: day)
            try await bench.state.forgetRecords(expiredBefore: bench.clock.now)
        }
        bench.clock.advance(by: open + 1)
        try await bench.state.forgetRecords(expiredBefore: bench.clock.now)
        #expect(try await bench.library.admit(deleted.name) == nil)
        bench.state.plan.fail(.dialectRecord)
        let error = await #expect(throws: UploadError.self) { _ = try await bench.library.admit(live.name) }
        #expect(error?.code == .storageFailure)
    }

    // MARK: Time

    @Test("media without content is removed after its time, not before, and without an event")
    func expiry() async throws {
        let bench = try await ApsaraBench.telling()
        let media = try await bench.begin(reference: "film-1")
        let complete = try await bench.made()
        #expect(try await bench.deliver().map(\.mediaID) == [complete.id])
        _ = try await bench.beginParts(of: media)
        bench.clock.advance(by: open + 30 * day - 1)
        try await bench.look()
        #expect(try await bench.isThereAndOpen(media.id))
        bench.clock.advance(by: 1)
        try await bench.look()
        try await expectGone(media, in: bench, but: complete, "expired")
        #expect(try await bench.isThere(complete.id))
        #expect(try await bench.deliver().isEmpty)
    }

    @Test("each refresh keeps media without content for longer")
    func refreshedExpiry() async throws {
        let bench = try await ApsaraBench.telling()
        let media = try await bench.begin()
        for _ in 0..<3 {
            bench.clock.advance(by: open + 30 * day - 1)
            try await bench.look()
            #expect(try await bench.refresh(media) != nil)
        }
        bench.clock.advance(by: open + 30 * day)
        try await bench.look()
        #expect(try await !bench.isThere(media.id))
    }

    @Test("a refresh that is acknowledged is not lost, although media without content is being removed")
    func refreshAtTheEnd() async throws {
        for isFirst in [true, false] {
            let issued = Box<Bool>()
            let refresh: @Sendable (ApsaraBench, ApsaraMedia) async throws -> Void = { bench, media in
                issued.set(try await bench.refresh(media) != nil)
            }
            let look: @Sendable (ApsaraBench, ApsaraMedia) async throws -> Void = { bench, _ in
                try await bench.look()
            }
            try await ApsaraBench.interleaved(
                { bench in
                    let media = try await bench.begin(reference: "film-1")
                    bench.clock.advance(by: open + 30 * day)
                    return media
                },
                isFirst ? refresh : look,
                isFirst ? look : refresh,
                { bench, media, number in
                    let isKept = try issued.content()
                    for _ in 0..<2 {
                        #expect(try await bench.isThere(media.id) == isKept, "\(number)")
                        try await bench.look()
                    }
                    #expect((try await bench.holder(of: "film-1") == media.id) == isKept)
                    if isKept {
                        try await bench.send(of: media)
                        #expect(try await bench.recorded(media.id)?.content != nil)
                    } else {
                        try await expectGone(media, in: bench, but: nil, "\(number)")
                    }
                }
            )
        }
    }

    @Test("wherever the gateway dies while it removes media without content, the next look removes the rest")
    func crashAtTheEnd() async throws {
        try await ApsaraBench.afterEachCall { bench, calls in
            let media = try await bench.begin(reference: "film-1")
            _ = try await bench.beginParts(of: media)
            bench.clock.advance(by: open + 30 * day)
            let (_, isOver) = await bench.dying(afterCalls: calls) { try await bench.look() }
            try await bench.look()
            try await expectGone(media, in: bench, but: nil, "\(calls)")
            return isOver
        }
    }

    @Test("the open record of complete media is removed when its last credentials have ended")
    func closing() async throws {
        let bench = try await ApsaraBench.telling()
        let media = try await bench.made()
        bench.clock.advance(by: open - 1)
        try await bench.look()
        #expect(try await bench.isOpen(media.id))
        #expect(try await bench.refresh(media) != nil)
        bench.clock.advance(by: open - 1)
        try await bench.look()
        #expect(try await bench.isOpen(media.id))
        bench.clock.advance(by: 1)
        try await bench.look()
        #expect(try await !bench.isOpen(media.id))
        #expect(try await bench.refresh(media) != nil)
        #expect(try await bench.isOpen(media.id))
    }

    @Test("media that is refreshed while its open record is removed is open afterwards", arguments: [true, false])
    func refreshWhileClosing(isFirst: Bool) async throws {
        let refresh: @Sendable (ApsaraBench, ApsaraMedia) async throws -> Void = { bench, media in
            let issued = try await bench.refresh(media)
            #expect(issued != nil)
        }
        let look: @Sendable (ApsaraBench, ApsaraMedia) async throws -> Void = { bench, _ in
            try await bench.look()
        }
        try await ApsaraBench.interleaved(
            { bench in
                let media = try await bench.made()
                bench.clock.advance(by: open)
                return media
            },
            isFirst ? refresh : look,
            isFirst ? look : refresh,
            { bench, media, number in
                #expect(try await bench.isOpen(media.id), "\(number)")
                bench.clock.advance(by: 1)
                try await bench.put([1], of: media)
                try await bench.look()
                #expect(try await bench.recorded(media.id)?.content?.size == 1, "\(number)")
            }
        )
    }

    @Test("the look at open media, which may use what a full disk keeps for deletions, records content without it")
    func contentIsNoDeletion() async throws {
        let bench = try ApsaraBench()
        let media = try await bench.begin { $0.subject = "dora" }
        try await bench.put(of: media)
        let wereFreeing = Mutex<[Bool]>([])
        bench.state.plan.before(.applyChanges) { wereFreeing.withLock { $0.append(FreeingWork.isRunning) } }
        try await FreeingWork.$isRunning.withValue(true) { try await bench.look() }
        #expect(try await bench.recorded(media.id)?.content != nil)
        #expect(wereFreeing.withLock { $0 } == [false])
    }

    // MARK: One bad record

    @Test("a record that cannot be read, or a hook that refuses, does not keep others from being looked at")
    func badRecords() async throws {
        let hook = RefusingHook()
        let bench = try ApsaraBench(hooks: hook)
        let first = try await bench.made()
        hook.refuse(first.key)
        await #expect(throws: UploadError.self) { try await bench.library.delete(first.id, hasEvent: false) }
        let broken = try await bench.begin()
        var record = try #require(try await bench.state.record(ApsaraMedia.recordKind, broken.id))
        record.text = "{}"
        #expect(try await bench.state.replace(record))
        let second = try await bench.made()
        bench.state.plan.fail(.object)
        await #expect(throws: UploadError.self) { try await bench.library.delete(second.id, hasEvent: false) }
        let third = try await bench.begin()
        try await bench.put(of: third)
        await #expect(throws: UploadError.self) { try await bench.library.finishRemovals() }
        #expect(try await bench.keys() == [first.key, third.key])
        await #expect(throws: UploadError.self) { try await bench.library.lookAtOpen() }
        #expect(try await bench.recorded(third.id)?.content != nil)
    }

    @Test("what fails in one look is left out of the next ones for a while, and the rest is not")
    func putOff() async throws {
        let hook = RefusingHook()
        let bench = try ApsaraBench(hooks: hook)
        let failing = FailingRecords(clock: bench.clock) { _ in }
        let first = try await bench.made()
        hook.refuse(first.key)
        await #expect(throws: UploadError.self) { try await bench.library.delete(first.id, hasEvent: false) }
        let broken = try await bench.begin()
        try await bench.spoil(ApsaraMedia.recordKind, broken.id)
        await #expect(throws: UploadError.self) { try await bench.library.finishRemovals(failing) }
        await #expect(throws: UploadError.self) { try await bench.library.lookAtOpen(failing) }
        let second = try await bench.begin()
        try await bench.put(of: second)
        #expect(try await bench.library.finishRemovals(failing))
        #expect(try await bench.library.lookAtOpen(failing))
        #expect(try await bench.recorded(second.id)?.content != nil)
        bench.clock.advance(by: 2)
        await #expect(throws: UploadError.self) { try await bench.library.finishRemovals(failing) }
        await #expect(throws: UploadError.self) { try await bench.library.lookAtOpen(failing) }
    }
}
