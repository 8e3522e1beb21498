import Bytes
import Foundation
import SluiceTesting
import Testing
import UploadCore
import UploadModel

@testable import AliyunVOD
@testable import VODKit

@Suite("Media of ApsaraVideo VOD that is pulled", .timeLimit(.minutes(10)))
struct ApsaraPullsTests {
    private let day = ApsaraBench.day
    private let url = "https://origin.example/v.mp4?token=x"

    private func begin(_ bench: ApsaraBench, reference: String? = nil) async throws -> ApsaraPull {
        var new = ApsaraBench.video
        new.labels.referenceID = reference
        return try await bench.pulls.begin(new, from: url, by: ApsaraBench.server)
    }

    /// Stores the bytes of all pulled uploads, as the pull service does.
    private func arrive(_ bench: ApsaraBench) async throws {
        for upload in try await bench.state.uploads(UploadQuery(limit: 100)) where upload.state == .open {
            _ = try await bench.services.uploads.append(
                to: upload.id,
                at: 0,
                contentLength: nil,
                finish: .explicit(isLast: true),
                expecting: nil,
                from: ArraySource([1, 2, 3])
            )
        }
    }

    private func job(_ job: ApsaraPull, _ bench: ApsaraBench) async throws -> ApsaraPull? {
        try await bench.pulls.job(job.id)?.content
    }

    private func end(_ job: ApsaraPull, _ bench: ApsaraBench) async throws {
        let id = try #require(job.uploadID.flatMap { UploadID($0) })
        try await bench.services.uploads.terminate(id)
    }

    /// Keys of the objects of all media that is not deleted.
    private func mediaKeys(_ bench: ApsaraBench) async throws -> Set<String> {
        let records = try await bench.state.records(ApsaraMedia.recordKind, prefix: "", after: nil, limit: 100)
        let media = try records.map { try CodedRecord<ApsaraMedia>($0).content }
        return Set(media.filter { !$0.isDeleted }.map(\.key))
    }

    @Test("what has arrived makes media complete, with its events, once")
    func arrives() async throws {
        let bench = try await ApsaraBench.telling()
        let begun = try await begin(bench)
        #expect(begun.url == "https://origin.example/v.mp4")
        let media = try #require(try await bench.recorded(begun.mediaID))
        #expect(media.content == nil && media.key.hasPrefix("app-1000000/sv/\(media.id)."))
        for _ in 0..<2 { #expect(try await bench.pulls.finishAll()) }
        #expect(try await job(begun, bench)?.finishedAt == nil)
        #expect(try await bench.deliver().isEmpty)
        try await arrive(bench)
        for _ in 0..<2 { _ = try await bench.pulls.finishAll() }
        let ended = try #require(try await job(begun, bench))
        #expect(ended.finishedAt == bench.clock.now.unixSeconds && ended.failure == nil && ended.size == 3)
        #expect(try await bench.recorded(begun.mediaID)?.content?.size == 3)
        #expect(try await bench.deliver().map(\.type) == ["FileUploadComplete", "UploadByURLComplete"])
        #expect(try await bench.count("aliyun pull") == 0)
        #expect(try await !bench.pulls.finishAll())
    }

    @Test("wherever the gateway dies at the beginning, what arrives becomes media")
    func crashAtTheBeginning() async throws {
        try await ApsaraBench.afterEachCall { bench, calls in
            let (begun, isOver) = await bench.dying(afterCalls: calls) { try await begin(bench, reference: "film-1") }
            try await arrive(bench)
            _ = try await bench.pulls.finishAll()
            try await bench.look()
            let keys = try await bench.keys()
            #expect(try await mediaKeys(bench).isSuperset(of: keys), "\(calls)")
            if let begun { #expect(try await job(begun, bench)?.finishedAt != nil) }
            // What never began is over after a day, and gives its reference id back.
            bench.clock.advance(by: 2 * day)
            _ = try await bench.pulls.finishAll()
            try await bench.look()
            #expect(try await bench.count("aliyun pull") == 0, "\(calls)")
            #expect(try await mediaKeys(bench) == keys, "\(calls)")
            let refused = try await code { _ = try await begin(bench, reference: "film-1") }
            #expect((refused == nil) == keys.isEmpty, "\(calls)")
            return isOver
        }
    }

    @Test("wherever the gateway dies at the end, there are one media and its events")
    func crashAtTheEnd() async throws {
        try await ApsaraBench.afterEachCall { bench, calls in
            let begun = try await begin(bench)
            try await arrive(bench)
            let (_, isOver) = await bench.dying(afterCalls: calls) { try await bench.pulls.finishAll() }
            bench.clock.advance(by: 1)
            _ = try await bench.pulls.finishAll()
            #expect(try await mediaKeys(bench) == bench.keys(), "\(calls)")
            #expect(try await job(begun, bench)?.failure == nil, "\(calls)")
            #expect(try await bench.deliver().map(\.type) == ["FileUploadComplete", "UploadByURLComplete"], "\(calls)")
            #expect(try await bench.count("aliyun pull") == 0, "\(calls)")
            return isOver
        }
    }

    @Test("wherever the gateway dies at the end of a job that failed, nothing is left of its media")
    func crashAtTheFailure() async throws {
        try await ApsaraBench.afterEachCall { bench, calls in
            let begun = try await begin(bench, reference: "film-1")
            try await end(begun, bench)
            let (_, isOver) = await bench.dying(afterCalls: calls) { try await bench.pulls.finishAll() }
            bench.clock.advance(by: 1)
            try await bench.look()
            _ = try await bench.pulls.finishAll()
            let events = try await bench.deliver()
            #expect(events.map(\.type) == ["UploadByURLComplete"], "\(calls)")
            #expect(events.first?.pull?.failure?.code == "FileDownloadFailed", "\(calls)")
            #expect(try await !bench.isThere(begun.mediaID), "\(calls)")
            #expect(try await bench.holder(of: "film-1") == nil, "\(calls)")
            #expect(try await bench.count("aliyun pull") == 0, "\(calls)")
            #expect(try await bench.count("aliyun removal") == 0, "\(calls)")
            return isOver
        }
    }

    @Test("two nodes that finish a job at once record one event")
    func finishersAtOnce() async throws {
        try await ApsaraBench.interleaved(
            { bench in
                let begun = try await begin(bench)
                try await arrive(bench)
                return begun
            },
            { bench, _ in _ = try await bench.pulls.finishAll() },
            { bench, _ in
                bench.clock.advance(by: 1)
                _ = try await bench.pulls.finishAll()
            },
            { bench, begun, number in
                _ = try await bench.pulls.finishAll()
                let types = try await bench.deliver().map(\.type)
                #expect(types == ["FileUploadComplete", "UploadByURLComplete"], "\(number)")
                #expect(try await job(begun, bench)?.size == 3, "\(number)")
                #expect(try await bench.count("aliyun pull") == 0, "\(number)")
            }
        )
    }

    @Test(
        "media that is deleted while it is fetched is fetched no longer, and nothing is left of it",
        arguments: [
            false, true,
        ]
    )
    func deletedWhileFetched(hasArrived: Bool) async throws {
        let bench = try await ApsaraBench.telling()
        let begun = try await begin(bench)
        let media = try #require(try await bench.recorded(begun.mediaID))
        // Long after the last credentials have ended.
        bench.clock.advance(by: day)
        try await bench.look()
        try await bench.library.delete(media.id, hasEvent: true)
        try await bench.look()
        // The right to write has ended with the media.
        if hasArrived { #expect(try await bench.refusal { try await arrive(bench) } == .conditionFailed) }
        _ = try await bench.pulls.finishAll()
        if !hasArrived { try await arrive(bench) }
        #expect(try await bench.keys().isEmpty)
        let open = try await bench.state.uploads(UploadQuery(limit: 100)).filter { $0.state == .open }
        #expect(open.isEmpty)
        #expect(try await job(begun, bench)?.failure != nil)
        #expect(try await bench.count("aliyun pull") == 0)
        #expect(try await bench.count(ApsaraLibrary.openKind) == 0)
    }

    @Test("whatever comes between, media that is deleted while its job ends leaves nothing", arguments: [true, false])
    func deletionAtTheEnd(isDeletionFirst: Bool) async throws {
        typealias Work = @Sendable (ApsaraBench, ApsaraPull) async throws -> Void
        let delete: Work = { bench, begun in
            let media = try #require(try await bench.recorded(begun.mediaID))
            try await bench.library.delete(media.id, hasEvent: true)
        }
        let finish: Work = { bench, _ in _ = try await bench.pulls.finishAll() }
        try await ApsaraBench.interleaved(
            { bench in
                let begun = try await begin(bench)
                try await arrive(bench)
                bench.clock.advance(by: day)
                return begun
            },
            isDeletionFirst ? delete : finish,
            isDeletionFirst ? finish : delete,
            { bench, begun, number in
                _ = try await bench.pulls.finishAll()
                #expect(try await !bench.isThere(begun.mediaID), "\(number)")
                #expect(try await bench.keys().isEmpty, "\(number)")
                #expect(try await bench.count("aliyun pull") == 0, "\(number)")
                #expect(try await bench.deliver().last?.type == "DeleteMediaComplete", "\(number)")
            }
        )
    }

    @Test("a job that was ended tells its reason, and its media is not there")
    func failure() async throws {
        let bench = try await ApsaraBench.telling()
        let begun = try await begin(bench, reference: "film-1")
        try await end(begun, bench)
        for _ in 0..<2 { _ = try await bench.pulls.finishAll() }
        let failure = try #require(try await job(begun, bench)?.failure)
        #expect(failure.code == "FileDownloadFailed" && !failure.message.isEmpty)
        let events = try await bench.deliver()
        #expect(events.map(\.type) == ["UploadByURLComplete"])
        #expect(events.first?.pull == ApsaraEvent.Pull(jobID: begun.id, url: begun.url, failure: failure))
        #expect(try await !bench.isThere(begun.mediaID))
        #expect(try await begin(bench, reference: "film-1").mediaID != begun.mediaID)
    }

    @Test("a call that fails leaves a job that has failed, no media, and tells nothing")
    func refused() async throws {
        let bench = try await ApsaraBench.telling()
        _ = try await bench.begin(reference: "film-1")
        let refused = try await code { _ = try await begin(bench, reference: "film-1") }
        #expect(refused == "InvalidReferenceId.Duplicated")
        bench.state.plan.fail(.insertPull)
        bench.state.plan.fail(.insertUpload)
        await #expect(throws: ApsaraError.self) { _ = try await begin(bench, reference: "film-2") }
        _ = try await bench.pulls.finishAll()
        #expect(try await bench.deliver().isEmpty)
        #expect(try await bench.count("aliyun pull") == 0)
        #expect(try await bench.holder(of: "film-2") == nil)
        #expect(try await mediaKeys(bench).count == 1)
        let records = try await bench.state.records(ApsaraPull.recordKind, prefix: "", after: nil, limit: 10)
        #expect(records.count == 1)
        for record in records { #expect(try CodedRecord<ApsaraPull>(record).content.failure?.code == "InternalError") }
    }

    @Test("the end of a job that a gateway of an earlier version recorded without its event is told")
    func endWithoutEvent() async throws {
        let bench = try await ApsaraBench.telling()
        let begun = try await begin(bench)
        try await arrive(bench)
        let found = try #require(try await bench.pulls.job(begun.id))
        var ended = found.content
        ended.finishedAt = bench.clock.now.unixSeconds
        #expect(try await bench.state.replace(found.replaced(by: ended, until: nil).record))
        for _ in 0..<2 { _ = try await bench.pulls.finishAll() }
        #expect(try await bench.deliver().map(\.type) == ["UploadByURLComplete"])
        #expect(try await bench.count("aliyun pull") == 0)
    }

    @Test("a job is kept for a year after its end, and as long as it takes before")
    func retention() async throws {
        let bench = try await ApsaraBench.telling()
        let begun = try await begin(bench)
        try await bench.state.forgetRecords(expiredBefore: bench.clock.now + 1000 * day)
        #expect(try await job(begun, bench) != nil)
        try await arrive(bench)
        _ = try await bench.pulls.finishAll()
        for (days, isKept) in [(364.9, true), (0.2, false)] {
            bench.clock.advance(by: days * day)
            try await bench.state.forgetRecords(expiredBefore: bench.clock.now)
            #expect((try await job(begun, bench)?.finishedAt != nil) == isKept)
        }
    }

    @Test("jobs are found by their URL without its query, the oldest first")
    func byURL() async throws {
        let bench = try await ApsaraBench.telling()
        var ids: [String] = []
        for _ in 0..<3 {
            ids.append(try await begin(bench).id)
            bench.clock.advance(by: 1)
        }
        for text in [url, "https://origin.example/v.mp4", "https://origin.example/v.mp4?other"] {
            #expect(try await bench.pulls.jobIDs(for: text) == ids)
        }
        #expect(try await bench.pulls.jobIDs(for: "https://origin.example/w.mp4").isEmpty)
        #expect(try await bench.pulls.jobIDs(for: "x").isEmpty)
        #expect(try await bench.pulls.job("x") == nil)
    }

    @Test("a session id is taken for ten minutes, by one of many, for each application")
    func sessions() async throws {
        let bench = try await ApsaraBench.telling()
        let taken = try await withThrowingTaskGroup(of: Bool.self) { group in
            for _ in 0..<20 { group.addTask { try await bench.pulls.take(session: "s", of: "app-1") } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(taken.count { $0 } == 1)
        #expect(try await bench.pulls.take(session: "s", of: "app-2"))
        bench.clock.advance(by: 599)
        #expect(try await !bench.pulls.take(session: "s", of: "app-1"))
        bench.clock.advance(by: 1)
        #expect(try await bench.pulls.take(session: "s", of: "app-1"))
    }

    @Test("one job that cannot be looked at does not keep others from ending")
    func badJob() async throws {
        let bench = try await ApsaraBench.telling()
        let first = try await begin(bench)
        bench.clock.advance(by: 1)
        let second = try await begin(bench)
        try await arrive(bench)
        var record = try #require(try await bench.state.record(ApsaraPull.recordKind, first.id))
        record.text = "{}"
        #expect(try await bench.state.replace(record))
        await #expect(throws: UploadError.self) { try await bench.pulls.finishAll() }
        #expect(try await job(second, bench)?.finishedAt != nil)
    }

    // MARK: The calls

    private func jobs(_ urls: String, _ more: [String: String] = [:], _ bench: ApsaraBench) async throws -> [String] {
        let parameters = more.merging(["UploadURLs": urls]) { $1 }
        return try await bench.call(.uploadMediaByURL, parameters).list("UploadJobs").compactMap { $0.text("JobId") }
    }

    @Test("UploadMediaByURL begins a job for each URL, with its metadata")
    func call() async throws {
        let bench = try await ApsaraBench.telling()
        let first = "https://a.example/films/holi%20day.MP4?x=1.mov"
        let metadata = #"""
            [{"SourceURL": "https://b.example/film", "Title": "Film", "FileExtension": "MOV", "Tags": "a,b", "CateId": 7,
            "ReferenceId": "film-1", "CoverURL": null}]
            """#
        let more = ["UploadMetadatas": metadata, "UserData": #"{"Extend":"x"}"#, "TemplateGroupId": "t"]
        let ids = try await jobs("\(first),https://b.example/film", more, bench)
        try #require(ids.count == 2)
        var media: [ApsaraMedia] = []
        for id in ids {
            let mediaID = try #require(try await bench.pulls.job(id)).content.mediaID
            media.append(try #require(try await bench.recorded(mediaID)))
        }
        #expect(media[0].fileName == "holi day.MP4" && media[0].suffix == "mp4")
        #expect(media[0].labels.title == "holi day.MP4")
        #expect(media[1].suffix == "mov" && media[1].labels.title == "Film" && media[1].labels.tags == ["a", "b"])
        #expect(media[1].labels.categoryIDs == [7] && media[1].labels.referenceID == "film-1")
        #expect(media.allSatisfy { $0.labels.userData == #"{"Extend":"x"}"# && $0.labels.templateGroupID == "t" })

        let infos = try await bench.call(.getURLUploadInfos, ["JobIds": "\(ids[0]),x"])
        #expect(infos.texts("NonExists") == ["x"])
        let info = try #require(infos.list("URLUploadInfoList").first)
        #expect(info.text("JobId") == ids[0] && info.text("Status") == "UPLOADING")
        #expect(info.text("UploadURL") == "https://a.example/films/holi%20day.MP4")
        #expect(info.text("MediaId") == media[0].id && info.text("UserData") == #"{"Extend":"x"}"#)
        try await arrive(bench)
        _ = try await bench.pulls.finishAll()
        let ended = try await bench.call(
            .getURLUploadInfos,
            ["UploadURLs": "https://b.example/film,https://c.example/x"]
        )
        #expect(ended.texts("NonExists") == ["https://c.example/x"])
        let last = try #require(ended.list("URLUploadInfoList").first)
        #expect(last.text("Status") == "SUCCESS" && last.text("FileSize") == "3")
        #expect(last.text("CompleteTime") == ApsaraDocuments.time(bench.clock.now))
    }

    @Test("a failed job is told with its error")
    func failedInfo() async throws {
        let bench = try await ApsaraBench.telling()
        let begun = try await begin(bench)
        try await end(begun, bench)
        _ = try await bench.pulls.finishAll()
        let info = try await bench.call(.getURLUploadInfos, ["JobIds": begun.id]).list("URLUploadInfoList").first
        #expect(info?.text("Status") == "FAIL" && info?.text("ErrorCode") == "FileDownloadFailed")
        #expect(info?.text("ErrorMessage")?.isEmpty == false && info?.text("MediaId") == nil)
    }

    @Test(
        "the name in a URL becomes the title as far as it is text that a client could send",
        arguments: [
            ("caf%C3%A9.mp4", "café.mp4"), ("%FF.mp4", "%FF.mp4"), ("%zz.mp4", "%zz.mp4"),
            (
                "a" + String(repeating: "%CC%81", count: 64) + ".mp4",
                "a" + String(repeating: "\u{301}", count: 64) + ".mp4"
            ),
            // More marks than any other text may have: it stays encoded.
            (
                "a" + String(repeating: "%CC%81", count: 65) + ".mp4",
                String(("a" + String(repeating: "%CC%81", count: 65)).prefix(128))
            ),
            // One `Character`.
            (
                "a" + String(repeating: "%E2%83%9D", count: 500) + ".mp4",
                "a" + String(repeating: "\u{20DD}", count: 127)
            ),
            (String(repeating: "x", count: 3000) + ".mp4", ""),
        ]
    )
    func titles(_ name: String, _ title: String) async throws {
        let bench = try await ApsaraBench.telling()
        _ = try await bench.call(.uploadMediaByURL, ["UploadURLs": "https://a.example/\(name)"])
        let records = try await bench.state.records(ApsaraMedia.recordKind, prefix: "", after: nil, limit: 100)
        let media = try #require(try records.map { try CodedRecord<ApsaraMedia>($0).content }.first)
        #expect(media.labels.title.utf8.elementsEqual(title.utf8), "\(media.labels.title)")
    }

    @Test(
        "wrong parameters of UploadMediaByURL are refused before anything begins",
        arguments: [
            ([:], "MissingParameter"), (["UploadURLs": "x"], "InvalidParameter"),
            (["UploadURLs": "ftp://a.example/v.mp4"], "InvalidParameter"),
            (["UploadURLs": "https://127.0.0.1/v.mp4"], "InvalidParameter"),
            (["UploadURLs": "https://a.example/v.mp4,x"], "InvalidParameter"),
            (["UploadURLs": "https://a.example/v"], "InvalidFileName.Extension"),
            (["UploadURLs": "https://a.mp4"], "InvalidFileName.Extension"),
            (["UploadURLs": "https://a.example/v?x=.mp4"], "InvalidFileName.Extension"),
            (["UploadURLs": String(repeating: "https://a.example/v.mp4,", count: 21)], "InvalidParameter"),
            (["UploadURLs": "https://a.example/v.mp4", "UploadMetadatas": "x"], "InvalidParameter"),
            (["UploadURLs": "https://a.example/v.mp4", "UploadMetadatas": "{}"], "InvalidParameter"),
            (["UploadURLs": "https://a.example/v.mp4", "UploadMetadatas": "[{}]"], "InvalidParameter"),
            (["UploadURLs": "https://a.example/v.mp4", "UploadMetadatas": "[1]"], "InvalidParameter"),
            (["UploadURLs": "https://a.example/v.mp4", "UserData": "x"], "InvalidParameter"),
            (
                ["UploadURLs": "https://a.example/v.mp4", "SessionId": String(repeating: "s", count: 51)],
                "LengthExceededMax"
            ),
            (["UploadURLs": "https://a.example/v.mp4", "SessionId": "s\0"], "IllegalCharacters"),
        ] as [([String: String], String)]
    )
    func wrong(_ parameters: [String: String], _ expected: String) async throws {
        let bench = try await ApsaraBench.telling()
        #expect(try await code { try await bench.call(.uploadMediaByURL, parameters) } == expected)
        #expect(try await bench.count(ApsaraPull.recordKind) == 0)
        #expect(try await bench.count(ApsaraMedia.recordKind) == 0)
    }

    @Test("a request with the same session id is refused for ten minutes")
    func session() async throws {
        let bench = try await ApsaraBench.telling()
        let one = ["SessionId": "s"]
        #expect(try await jobs(url, one, bench).count == 1)
        let refused = try await code { _ = try await jobs(url, one, bench) }
        #expect(refused == "InvalidParameter.SessionIdDuplicated")
        bench.clock.advance(by: 600)
        #expect(try await jobs(url, one, bench).count == 1)
    }

    @Test("jobs of others are as if they were not there")
    func owners() async throws {
        let bench = try await ApsaraBench.telling()
        let limited = { (subject: String) in
            ApsaraCaller(identity: .key(ApsaraBench.key(KeyLimits(subjects: [subject]))))
        }
        let begun = try await bench.pulls.begin(ApsaraBench.video, from: url, by: limited("dora"))
        #expect(begun.subject == "dora")
        let parameters = ["JobIds": begun.id]
        let own = try await bench.call(.getURLUploadInfos, parameters, by: limited("dora"))
        #expect(own.list("URLUploadInfoList").count == 1)
        let foreign = try await bench.call(.getURLUploadInfos, parameters, by: limited("eve"))
        #expect(foreign.list("URLUploadInfoList").isEmpty && foreign.texts("NonExists") == [begun.id])
    }
}
