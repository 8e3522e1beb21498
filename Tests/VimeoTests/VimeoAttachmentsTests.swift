import Bytes
import Foundation
import HTTPWire
import SluiceTesting
import Testing
import UploadCore
import UploadModel

@testable import VODKit
@testable import Vimeo

@Suite("Other files, pictures and text tracks of Vimeo's videos", .timeLimit(.minutes(10)))
struct VimeoAttachmentsTests {
    private static let bytes: [UInt8] = Array(0..<10)

    private static func attachment(_ kind: VimeoAttachment.Kind, of entry: VimeoEntry, _ id: Int64 = 7)
        -> VimeoAttachment
    {
        VimeoAttachment(id: id, kind: kind, video: entry.video.id, subject: entry.video.subject, principal: "p")
    }

    /// Does nothing if the attachment was removed.
    private static func put(_ bytes: [UInt8], _ attachment: VimeoAttachment, of entry: VimeoEntry, _ bench: VimeoBench)
        async throws
    {
        guard let found = try await bench.library.attachments.one(attachment.kind, at: attachment.recordKey) else {
            return
        }
        try await bench.library.attachments.put(ArraySource(bytes), type: "image/jpeg", to: found, of: entry.video)
    }

    /// The bytes of an attachment, as documents tell of them.
    private static func content(_ attachment: VimeoAttachment, _ bench: VimeoBench) async throws -> [UInt8] {
        let found = try #require(try await bench.library.attachments.one(attachment.kind, at: attachment.recordKey))
        let settled = try await bench.library.attachments.settled(found.content).attachment
        let id = try #require(settled.uploadID.flatMap { UploadID($0) })
        #expect(try await bench.state.upload(id)?.state == .completed)
        return try await bench.storage.head(of: id, length: 10)
    }

    private static func insert(_ attachment: VimeoAttachment, _ bench: VimeoBench) async throws {
        #expect(try await bench.state.apply([bench.library.attachments.insertion(of: attachment)]))
    }

    /// Uploads that have not ended.
    private static func alive(_ bench: VimeoBench) async throws -> [Upload] {
        try await bench.services.uploads.list(UploadQuery(limit: 1000)).filter(\.isAlive)
    }

    private static func version(_ bench: VimeoBench, _ entry: VimeoEntry, _ bytes: [UInt8], whole: Bool = true)
        async throws
    {
        let current = try #require(try await bench.current(entry))
        let changed = try await bench.uploads.addVersion(
            "v.mp4",
            size: Int64(bytes.count),
            to: current,
            by: bench.caller()
        )
        let id = try #require(changed.versions.last).upload.id
        _ = try await bench.services.uploads.append(
            to: id,
            at: 0,
            contentLength: nil,
            expecting: nil,
            from: ArraySource(whole ? bytes : Array(bytes.dropLast()))
        )
    }

    private static func content(_ bench: VimeoBench, _ entry: VimeoEntry) async throws -> [UInt8] {
        let active = try #require(try await bench.current(entry)?.active)
        return try await bench.storage.head(of: active.id, length: 1000)
    }

    @Test("the latest complete file is that of the video; all end with it")
    func versions() async throws {
        let bench = try VimeoBench()
        let entry = try await bench.create(.streaming)
        _ = try await bench.put(Self.bytes, of: 10, to: entry)
        try await Self.version(bench, entry, [1, 2, 3])
        #expect(try await Self.content(bench, entry) == [1, 2, 3])
        try await Self.version(bench, entry, [4, 5, 6, 7], whole: false)
        #expect(try await Self.content(bench, entry) == [1, 2, 3])
        #expect(try await bench.current(entry)?.status == .available)
        #expect(try await bench.current(entry)?.versions.count == 2)
        #expect(try await bench.library.delete(try #require(try await bench.current(entry))))
        #expect(try await Self.alive(bench).isEmpty)
    }

    @Test("a ticket for another file replaces it once, and can be completed again")
    func replacement() async throws {
        let bench = try VimeoBench()
        let entry = try await bench.create(.streaming)
        _ = try await bench.put(Self.bytes, of: 10, to: entry)
        var new = VimeoUploads.New(labels: VimeoVideo.Labels(), approach: .ticket, size: 3)
        new.replaces = entry.video.id
        let ticket = try await bench.uploads.create(new, by: bench.caller())
        #expect(try await bench.put([1, 2, 3], of: 3, to: ticket) == .stored)
        for _ in 0..<3 {
            let video = try await bench.uploads.complete(try #require(try await bench.current(ticket)))
            #expect(video.uri == entry.video.uri && video.versions?.count == 1)
        }
        #expect(try await Self.content(bench, entry) == [1, 2, 3])
        #expect(try await bench.videos().count == 1)
        #expect(try await bench.library.delete(try #require(try await bench.current(entry))))
        #expect(try await bench.current(ticket) == nil)
        #expect(try await Self.alive(bench).isEmpty)
    }

    @Test(
        "the link of a picture takes bytes once: of several at once one stays, and later ones change nothing",
        arguments: VimeoAttachment.Kind.allCases
    )
    func bytes(kind: VimeoAttachment.Kind) async throws {
        let bench = try VimeoBench()
        let entry = try await bench.create(.streaming)
        let attachment = Self.attachment(kind, of: entry)
        try await Self.insert(attachment, bench)
        bench.state.plan.pause { await Task.yield() }
        let stored = await withTaskGroup(of: Bool.self) { group in
            for number in 1...5 {
                group.addTask {
                    let bytes = [UInt8](repeating: UInt8(number), count: number)
                    return (try? await Self.put(bytes, attachment, of: entry, bench)) != nil
                }
            }
            return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(stored == 1)
        #expect(try await Self.alive(bench).count == 2)
        let content = try await Self.content(attachment, bench)
        #expect(content == [UInt8](repeating: UInt8(content.count), count: content.count))
        // Its response was lost, and it comes again.
        try await Self.put(content, attachment, of: entry, bench)
        for source in [ArraySource([9] + content) as any ByteSource, ScriptedSource([.bytes([9] + content)])] {
            let found = try #require(try await bench.library.attachments.one(kind, at: attachment.recordKey))
            let error = await #expect(throws: VimeoError.self) {
                try await bench.library.attachments.put(source, type: "image/png", to: found, of: entry.video)
            }
            #expect(error?.failure.status == 409)
        }
        #expect(try await Self.content(attachment, bench) == content)
        #expect(try await Self.alive(bench).count == 2)
    }

    @Test(
        "of two that are complete at once, the one that is recorded keeps its bytes",
        arguments: VimeoAttachment.Kind.allCases
    )
    func choice(kind: VimeoAttachment.Kind) async throws {
        let bench = try VimeoBench()
        let entry = try await bench.create(.streaming)
        let attachment = Self.attachment(kind, of: entry)
        try await Self.insert(attachment, bench)
        let found = try #require(try await bench.library.attachments.one(kind, at: attachment.recordKey))
        let first = ScriptedSource([.bytes([1]), .stall])
        let second = ScriptedSource([.bytes([2, 2]), .stall])
        @Sendable func put(_ source: ScriptedSource) async -> Bool {
            (try? await bench.library.attachments.put(source, type: "image/png", to: found, of: entry.video)) != nil
        }
        async let isFirst = put(first)
        await first.waitUntilStalled()
        let (mayRecord, record) = AsyncStream.makeStream(of: Void.self)
        let (isOver, end) = AsyncStream.makeStream(of: Void.self)
        async let isSecond = {
            defer { end.finish() }
            return await put(second)
        }()
        await second.waitUntilStalled()
        // The second one is complete and about to be recorded; the first one comes to the same point before that.
        bench.state.plan.before(.replaceRecord) {
            bench.state.plan.before(.replaceRecord) {
                record.finish()
                for await _ in isOver {}
            }
            first.proceed()
            for await _ in mayRecord {}
        }
        second.proceed()
        #expect(await isSecond)
        #expect(await !isFirst)
        #expect(try await Self.content(attachment, bench) == [2, 2])
        #expect(try await Self.alive(bench).count == 2)
    }

    @Test("of many pictures that are added at once no more are than a video can have", arguments: [0, 50])
    func mostAtOnce(before: Int) async throws {
        let bench = try VimeoBench()
        let entry = try await bench.create(.streaming)
        // Of an earlier version, which did not count them.
        for id in 0..<before {
            try await Self.insert(Self.attachment(.picture, of: entry, Int64(id + 1)), bench)
        }
        bench.state.plan.pause { await Task.yield() }
        let added = await withTaskGroup(of: Bool.self) { group in
            for id in 1000..<1130 {
                group.addTask {
                    (try? await bench.library.add(Self.attachment(.picture, of: entry, Int64(id)), to: entry)) != nil
                }
            }
            return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(added == VimeoAttachments.most - before)
        func all() async throws -> [VimeoAttachment] {
            try await bench.library.attachments.all(.picture, of: entry.video)
        }
        #expect(try await all().count == VimeoAttachments.most)
        // One that is removed makes room, and one whose addition was interrupted takes none.
        let first = try #require(try await all().first)
        let found = try #require(try await bench.library.attachments.one(.picture, at: first.recordKey))
        #expect(try await bench.library.remove(found, from: entry))
        bench.state.plan.fail(.applyChanges)
        await #expect(throws: VimeoError.self) {
            try await bench.library.add(Self.attachment(.picture, of: entry, 2000), to: entry)
        }
        _ = try await bench.library.add(Self.attachment(.picture, of: entry, 2002), to: entry)
        #expect(try await all().count == VimeoAttachments.most)
    }

    @Test("wherever the gateway dies, bytes of a picture are there or not, and nothing else stays")
    func interruptedPut() async throws {
        var calls = 0
        while true {
            let bench = try VimeoBench()
            let entry = try await bench.create(.streaming)
            let attachment = Self.attachment(.picture, of: entry)
            try await Self.insert(attachment, bench)
            let found = try #require(try await bench.library.attachments.one(.picture, at: attachment.recordKey))
            bench.fuse.burn(afterCalls: calls)
            let isOver =
                (try? await bench.library.attachments.put(
                    ArraySource([2]),
                    type: "image/png",
                    to: found,
                    of: entry.video
                )) != nil
            bench.fuse.replace()
            let current = try #require(try await bench.library.attachments.one(.picture, at: attachment.recordKey))
            let isThere = try await bench.library.attachments.settled(current.content).attachment.uploadID != nil
            #expect(!isOver || isThere, "\(calls)")
            // Whatever the gateway did last, its client can send them again.
            try await Self.put(isThere ? [2] : [3], attachment, of: entry, bench)
            #expect(try await Self.content(attachment, bench) == (isThere ? [2] : [3]), "\(calls)")
            let completed = try await Self.alive(bench).filter { $0.state == .completed }
            #expect(completed.count == 1, "\(calls)")
            #expect(try await bench.library.delete(try #require(try await bench.current(entry))), "\(calls)")
            // One that was not recorded yet is open, and expires.
            #expect(try await Self.alive(bench).allSatisfy { $0.state == .open && $0.offset == 0 }, "\(calls)")
            if isOver { break }
            calls += 1
        }
        #expect(calls > 5)
    }

    @Test("bytes of an upload that could not be recorded do not stay")
    func unrecorded() async throws {
        let bench = try VimeoBench()
        let entry = try await bench.create(.streaming)
        let attachment = Self.attachment(.picture, of: entry)
        try await Self.insert(attachment, bench)
        // Before the bytes.
        for lost in [true, false] {
            if lost {
                bench.state.plan.lose(.replaceRecord, with: UploadError(.storageFailure, "lost"))
            } else {
                bench.state.plan.fail(.replaceRecord)
            }
            await #expect(throws: VimeoError.self) { try await Self.put([5], attachment, of: entry, bench) }
            #expect(try await Self.alive(bench).map(\.id.text) == [entry.video.uploadID])
        }
        try await Self.put([5], attachment, of: entry, bench)
        #expect(try await Self.content(attachment, bench) == [5])
        #expect(try await Self.alive(bench).count == 2)
    }

    @Test(
        "with a video its pictures and text tracks go, wherever the gateway dies; what is sent meanwhile does not stay"
    )
    func deletion() async throws {
        var calls = 0
        while true {
            let bench = try VimeoBench()
            let entry = try await bench.create(.streaming)
            _ = try await bench.put(Self.bytes, of: 10, to: entry)
            for kind in VimeoAttachment.Kind.allCases {
                let attachment = Self.attachment(kind, of: entry)
                try await Self.insert(attachment, bench)
                try await Self.put([1], attachment, of: entry, bench)
            }
            try await Self.version(bench, entry, [1, 2, 3])
            let current = try #require(try await bench.current(entry))
            bench.fuse.burn(afterCalls: calls)
            let isOver = (try? await bench.library.delete(current)) == true
            bench.fuse.replace()
            if let left = try await bench.current(entry) { #expect(try await bench.library.delete(left), "\(calls)") }
            #expect(try await bench.current(entry) == nil, "\(calls)")
            try await bench.library.lookAtOpen()
            #expect(try await Self.alive(bench).isEmpty, "\(calls)")
            for kind in VimeoAttachment.Kind.allCases {
                let left = try await bench.state.records(kind.recordKind, prefix: "", after: nil, limit: 10)
                #expect(left.isEmpty, "\(calls)")
            }
            if isOver { break }
            calls += 1
        }
        #expect(calls > 10)
    }

    @Test("what is added to a video while it is deleted does not stay")
    func additionDuringDeletion() async throws {
        let bench = try VimeoBench()
        let entry = try await bench.create(.streaming)
        #expect(try await bench.library.delete(entry))
        for kind in VimeoAttachment.Kind.allCases {
            await #expect(throws: VimeoError.self) {
                _ = try await bench.library.add(Self.attachment(kind, of: entry), to: entry)
            }
            #expect(try await bench.state.records(kind.recordKind, prefix: "", after: nil, limit: 10).isEmpty)
        }
        await #expect(throws: VimeoError.self) {
            _ = try await bench.uploads.addVersion("v.mp4", size: 3, to: entry, by: bench.caller())
        }
        #expect(try await Self.alive(bench).isEmpty)
    }

    @Test("nothing is added to a video whose deletion was interrupted")
    func additionAfterDeletion() async throws {
        let bench = try VimeoBench()
        let entry = try await bench.create(.streaming)
        // It says so in the record, and leaves the rest.
        bench.state.plan.fail(.applyChanges, onCall: 2)
        await #expect(throws: UploadError.self) { try await bench.library.delete(entry) }
        await #expect(throws: VimeoError.self) {
            _ = try await bench.uploads.addVersion("v.mp4", size: 3, to: entry, by: bench.caller())
        }
        #expect(try await bench.library.change(entry) { $0 } == nil)
        #expect(try await Self.alive(bench).isEmpty)
        #expect(try await bench.current(entry) == nil)
    }

    @Test("a deletion that begins while its video is looked at, and is interrupted, is finished by the next look")
    func deletionWhileLooking() async throws {
        let bench = try VimeoBench()
        let entry = try await bench.create(.streaming)
        _ = try await bench.put(Self.bytes, of: 10, to: entry)
        bench.state.plan.before(.applyChanges) {
            bench.state.plan.fail(.applyChanges, onCall: 2)
            await #expect(throws: UploadError.self) { try await bench.library.delete(entry) }
        }
        try await bench.library.lookAtOpen()
        try await bench.library.lookAtOpen()
        #expect(try await Self.alive(bench).isEmpty)
        for kind in [VimeoVideo.recordKind, "vimeo open"] {
            #expect(try await bench.state.records(kind, prefix: "", after: nil, limit: 10).isEmpty)
        }
    }

    @Test("an attachment whose id is taken gets another one")
    func takenID() async throws {
        let bench = try VimeoBench()
        let entry = try await bench.create(.streaming)
        for kind in VimeoAttachment.Kind.allCases {
            let first = try await bench.library.add(Self.attachment(kind, of: entry), to: entry).attachment
            let second = try await bench.library.add(Self.attachment(kind, of: entry), to: entry).attachment
            #expect(first.id == 7)
            #expect(second.id != first.id)
            let all = try await bench.library.attachments.all(kind, of: entry.video)
            #expect(Set(all.map(\.id)) == [first.id, second.id])
        }
    }

    @Test("users whose numbers are equal do not see each other's pictures")
    func strangers() async throws {
        let bench = try VimeoBench()
        let entry = try await bench.create(.streaming)
        let own = Self.attachment(.picture, of: entry)
        var foreign = own
        foreign.subject = "eve"
        let kind = VimeoAttachment.Kind.picture.recordKind
        let record = CodedRecord(kind, own.recordKey, foreign, at: bench.clock.now, until: nil).record
        #expect(try await bench.state.insert(record, at: bench.clock.now))
        #expect(try await bench.library.attachments.one(.picture, own.id, of: entry.video) == nil)
        #expect(try await bench.library.attachments.all(.picture, of: entry.video).isEmpty)
    }

    @Test("a video has at most so many pictures, and more that came at once go with it, too")
    func most() async throws {
        let bench = try VimeoBench()
        let entry = try await bench.create(.streaming)
        for id in 1...Int64(VimeoAttachments.most) {
            _ = try await bench.library.add(Self.attachment(.picture, of: entry, id), to: entry)
        }
        await #expect(throws: VimeoError.self) {
            _ = try await bench.library.add(Self.attachment(.picture, of: entry, 999), to: entry)
        }
        for id in 1000...1050 as ClosedRange<Int64> {
            let more = Self.attachment(.picture, of: entry, id)
            let kind = VimeoAttachment.Kind.picture.recordKind
            let record = CodedRecord(kind, more.recordKey, more, at: bench.clock.now, until: nil).record
            #expect(try await bench.state.insert(record, at: bench.clock.now))
        }
        #expect(try await bench.library.attachments.all(.picture, of: entry.video).count == VimeoAttachments.most + 51)
        #expect(try await bench.library.delete(entry))
        let left = try await bench.state.records(
            VimeoAttachment.Kind.picture.recordKind,
            prefix: "",
            after: nil,
            limit: 10
        )
        #expect(left.isEmpty)
    }

    @Test("a video has at most so many versions; those whose uploads have ended do not count")
    func mostVersions() async throws {
        let bench = try VimeoBench()
        let entry = try await bench.create(.streaming)
        _ = try await bench.put(Self.bytes, of: 10, to: entry)
        for _ in 1...VimeoUploads.mostVersions { try await Self.version(bench, entry, [1, 2], whole: false) }
        await #expect(throws: VimeoError.self) { try await Self.version(bench, entry, [1, 2]) }
        #expect(try await Self.alive(bench).count == VimeoUploads.mostVersions + 1)
        let versions = try #require(try await bench.current(entry)?.versions)
        #expect(Set(versions.map(\.version.id)).count == versions.count)
        for version in versions.prefix(2) { try await bench.services.uploads.terminate(version.upload.id) }
        try await Self.version(bench, entry, [1, 2])
        #expect(try await bench.current(entry)?.video.versions?.count == VimeoUploads.mostVersions - 1)
        #expect(try await Self.content(bench, entry) == [1, 2])
    }

    @Test("of many versions that are added at once each answer has its own")
    func versionsAtOnce() async throws {
        let bench = try VimeoBench()
        let entry = try await bench.create(.streaming)
        bench.state.plan.pause { await Task.yield() }
        let caller = bench.caller()
        let ids = try await withThrowingTaskGroup(of: UploadID?.self) { group in
            for _ in 0..<20 {
                group.addTask {
                    try await bench.uploads.addVersion("v.mp4", size: 3, to: entry, by: caller).versions.last?.upload.id
                }
            }
            return try await group.reduce(into: Set<UploadID?>()) { $0.insert($1) }
        }
        #expect(ids.count == 20 && !ids.contains(nil))
    }

    @Test("too many requests that send bytes of one picture are refused, and leave nothing")
    func mostComing() async throws {
        let bench = try VimeoBench()
        let entry = try await bench.create(.streaming)
        let attachment = Self.attachment(.picture, of: entry)
        _ = try await bench.library.add(attachment, to: entry)
        let found = try #require(try await bench.library.attachments.one(.picture, at: attachment.recordKey))
        var crowded = found.content
        for _ in 0..<8 {
            let grant = Grant(id: "g", issuer: nil, subject: "dora", dialect: "vimeo", expiresAt: .distantFuture)
            let new = NewUpload(dialect: "vimeo", length: nil, completesWhenFull: false)
            let upload = try await bench.services.uploads.create(new, under: grant)
            crowded.coming = (crowded.coming ?? []) + [upload.id.text]
        }
        #expect(try await bench.state.replace(found.replaced(by: crowded, until: nil).record))
        let error = await #expect(throws: VimeoError.self) { try await Self.put([1], attachment, of: entry, bench) }
        #expect(error?.failure.status == 409)
        #expect(try await Self.alive(bench).count == 9)
        // One that has ended makes room.
        try await bench.services.uploads.terminate(try #require(crowded.coming?.first.flatMap { UploadID($0) }))
        try await Self.put([1], attachment, of: entry, bench)
        #expect(try await Self.content(attachment, bench) == [1])
    }

    @Test("bytes that come while a picture is removed do not stay")
    func removal() async throws {
        for _ in 0..<20 {
            let bench = try VimeoBench()
            let entry = try await bench.create(.streaming)
            let attachment = Self.attachment(.picture, of: entry)
            try await Self.insert(attachment, bench)
            try await Self.put([1], attachment, of: entry, bench)
            let found = try #require(try await bench.library.attachments.one(.picture, at: attachment.recordKey))
            bench.state.plan.pause { await Task.yield() }
            await withTaskGroup(of: Void.self) { group in
                group.addTask { try? await Self.put([2], attachment, of: entry, bench) }
                group.addTask { _ = try? await bench.library.attachments.remove(found) }
                group.addTask { try? await Self.put([3], attachment, of: entry, bench) }
            }
            #expect(try await bench.library.attachments.one(.picture, at: attachment.recordKey) == nil)
            #expect(try await Self.alive(bench).map(\.id.text) == [entry.video.uploadID])
        }
    }

    @Test("a mark whose video never came is removed later; a gateway of an earlier version recorded it first")
    func markedOnly() async throws {
        let bench = try VimeoBench()
        func marks() async throws -> Int {
            try await bench.state.records("vimeo open", prefix: "", after: nil, limit: 10).count
        }
        let now = bench.clock.now
        let mark = DialectRecord(kind: "vimeo open", key: "k", text: "{}", createdAt: now)
        #expect(try await bench.state.insert(mark, at: now))
        try await bench.library.lookAtOpen()
        #expect(try await marks() == 1)
        bench.clock.advance(by: 3601)
        try await bench.library.lookAtOpen()
        #expect(try await marks() == 0)
    }

    @Test("records of tickets and videos that were given up are removed, those of others stay")
    func givenUp() async throws {
        let bench = try VimeoBench()
        let complete = try await bench.create(.streaming)
        _ = try await bench.put(Self.bytes, of: 10, to: complete)
        _ = try await bench.create(.ticket)
        _ = try await bench.create(.tus)
        func count(_ kind: String) async throws -> Int {
            try await bench.state.records(kind, prefix: "", after: nil, limit: 10).count
        }
        try await bench.library.lookAtOpen()
        #expect(try await count("vimeo open") == 2)
        bench.clock.advance(by: VimeoBench.lifetime + 10)
        let open = try await bench.create(.tus)
        try await bench.library.lookAtOpen()
        #expect(try await count("vimeo open") == 1)
        #expect(try await count(VimeoVideo.recordKind) == 2)
        #expect(try await bench.current(open) != nil)
        #expect(try await bench.current(complete) != nil)
    }

    @Test("a record that cannot be read, and a deletion that fails, keep no other video from being removed")
    func badRecords() async throws {
        let bench = try VimeoBench()
        var made: [VimeoEntry] = []
        for _ in 0..<3 {
            made.append(try await bench.create(.tus))
            bench.clock.advance(by: 1)
        }
        // Newest first.
        made.reverse()
        var record = try #require(
            try await bench.state.record(VimeoVideo.recordKind, made[0].record.record.key)
        )
        record.text = "[]"
        #expect(try await bench.state.replace(record))
        for entry in made.dropFirst() {
            bench.state.plan.fail(.end)
            await #expect(throws: UploadError.self) { try await bench.library.delete(entry) }
        }
        bench.state.plan.fail(.end)
        let failing = FailingRecords(clock: bench.clock) { _ in }
        await #expect(throws: UploadError.self) { try await bench.library.lookAtOpen(failing) }
        func left() async throws -> Int {
            try await bench.state.records(VimeoVideo.recordKind, prefix: "", after: nil, limit: 10).count
        }
        #expect(try await left() == 2 && failing.count == 2)
        #expect(try await bench.library.lookAtOpen(failing))
        #expect(try await left() == 2)
        bench.clock.advance(by: 2)
        await #expect(throws: UploadError.self) { try await bench.library.lookAtOpen(failing) }
        #expect(try await left() == 1 && failing.count == 1)
    }

    @Test("a video and a picture whose records cannot be read do not keep others from being listed")
    func unreadableInLists() async throws {
        let bench = try VimeoBench()
        var made: [VimeoEntry] = []
        for _ in 0..<2 {
            made.append(try await bench.create(.tus))
            bench.clock.advance(by: 1)
        }
        for number: Int64 in [1, 2] {
            _ = try await bench.library.add(Self.attachment(.picture, of: made[1], number), to: made[1])
        }
        let picture = try await bench.state.records(
            VimeoAttachment.Kind.picture.recordKind,
            prefix: "",
            after: nil,
            limit: 10
        )
        try #require(picture.count == 2)
        let video = try #require(try await bench.state.record(VimeoVideo.recordKind, made[0].record.record.key))
        for var record in [picture[0], video] {
            record.text = "[]"
            #expect(try await bench.state.replace(record))
        }
        #expect(try await bench.videos().map(\.id) == [made[1].video.id])
        #expect(try await bench.library.attachments.all(.picture, of: made[1].video).count == 1)
    }

    @Test("a ticket whose completion was interrupted is removed, one that has become something is not")
    func abandonedTickets() async throws {
        let bench = try VimeoBench()
        let video = try await bench.create(.streaming)
        _ = try await bench.put(Self.bytes, of: 10, to: video)
        var tickets: [VimeoEntry] = []
        for replaces in [nil, video.video.id, nil, video.video.id] {
            var new = VimeoUploads.New(labels: VimeoVideo.Labels(), approach: .ticket, size: 10)
            new.replaces = replaces
            let ticket = try await bench.uploads.create(new, by: bench.caller())
            _ = try await bench.put(Self.bytes, of: 10, to: ticket)
            tickets.append(ticket)
        }
        for (index, ticket) in tickets.enumerated() {
            let entry = try #require(try await bench.current(ticket))
            if index < 2 {
                _ = try await bench.uploads.finish(entry)
            } else {
                _ = try await bench.uploads.complete(entry)
            }
        }
        bench.clock.advance(by: VimeoBench.lifetime - 10)
        try await bench.library.lookAtOpen()
        for ticket in tickets { #expect(try await bench.current(ticket) != nil) }
        bench.clock.advance(by: 20)
        try await bench.library.lookAtOpen()
        for (index, ticket) in tickets.enumerated() {
            #expect(try await (bench.current(ticket) == nil) == (index < 2), "\(index)")
        }
        let entry = try #require(try await bench.current(video))
        #expect(entry.versions.count == 1)
        #expect(try await Self.alive(bench).count == 3)
    }
}
