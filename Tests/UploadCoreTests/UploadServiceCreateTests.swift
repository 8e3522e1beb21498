import Bytes
import Foundation
import SluiceTesting
import Testing

@testable import UploadCore
@testable import UploadModel

@Suite("Creating uploads", .timeLimit(.minutes(10)))
struct UploadServiceCreateTests {
    @Test("a new upload has the properties from the client and the grant")
    func create() async throws {
        let bench = ServiceBench()
        let metadata = UploadMetadata(raw: "filename YS5tcDQ=", values: ["filename": "a.mp4", "note": "mine"])
        let grant = bench.grant("slg_1", dialect: "tus", metadata: ["note": "the app's", "course": "7"])
        let upload = try await bench.services.uploads.create(
            NewUpload(dialect: "tus", length: 10, metadata: metadata),
            under: grant
        )
        #expect(upload.state == .open)
        #expect(upload.length == 10)
        #expect(upload.offset == 0)
        #expect(upload.subject == "alice")
        #expect(upload.principal == "slg_1")
        #expect(upload.metadata.raw == "filename YS5tcDQ=")
        #expect(upload.metadata.values == ["filename": "a.mp4", "note": "the app's", "course": "7"])
        #expect(upload.expiresAt == bench.clock.now.addingTimeInterval(3600))
        #expect(try await bench.services.uploads.status(of: upload.id) == upload)
        #expect(bench.observer.story == ["created"])
    }

    @Test("an empty upload is complete at once")
    func empty() async throws {
        let bench = ServiceBench()
        let upload = try await bench.services.uploads.create(NewUpload(dialect: "tus", length: 0), under: bench.grant())
        #expect(upload.state == .completed)
        #expect(try await bench.services.media.media(upload.id).size == 0)
        #expect(bench.observer.story == ["created", "completed"])
    }

    @Test("an empty upload whose completion is not recorded exists, and is completed by the next request")
    func emptyUnrecorded() async throws {
        let bench = ServiceBench()
        bench.state.plan.fail(.complete)
        let upload = try await bench.services.uploads.create(NewUpload(dialect: "tus", length: 0), under: bench.grant())
        #expect(upload.state == .open)
        #expect(bench.observer.story == ["created", "failed"])
        #expect(try await bench.services.uploads.status(of: upload.id).state == .completed)
    }

    @Test("more bytes than the server or the grant allows are refused with the effective limit")
    func tooLarge() async throws {
        let bench = ServiceBench()
        for (length, ofGrant, limit) in [(1001, nil, 1000), (501, 500, 500), (5000, 9000, 1000)]
            as [(Int64, Int64?, Int64)]
        {
            let result = await code {
                try await bench.services.uploads.create(
                    NewUpload(dialect: "tus", length: length),
                    under: bench.grant(maximumBytes: ofGrant)
                )
            }
            #expect(result == .tooLarge(limit: limit))
        }
        _ = try await bench.services.uploads.create(
            NewUpload(dialect: "tus", length: 500),
            under: bench.grant(maximumBytes: 500)
        )
        #expect(bench.storage.plan.calls(of: .create) == 1)
    }

    @Test("a negative length is refused, at creation and later")
    func badLength() async throws {
        let bench = ServiceBench()
        let result = await code {
            try await bench.services.uploads.create(NewUpload(dialect: "tus", length: -1), under: bench.grant())
        }
        #expect(result == .invalidRequest)
        let open = try await bench.services.uploads.create(NewUpload(dialect: "tus", length: nil), under: bench.grant())
        let later = await code {
            try await bench.services.uploads.append(
                to: open.id,
                at: 0,
                contentLength: 0,
                declaring: -1,
                expecting: nil,
                from: ArraySource([])
            )
        }
        #expect(later == .lengthConflict(length: nil))
    }

    @Test(
        "control characters are refused in names and types, and NUL in other values",
        arguments: [
            (["filename": "evil.exe\0.jpg"], false), (["name": "a\u{1B}[2J.jpg"], false),
            (["filetype": "a/b\0c"], false),
            (["type": "a/b\r\nX: y"], false), (["filename": "a\nb.jpg"], false), (["filename": "a\u{85}.jpg"], false),
            (["note": "a\0"], false), (["note": "\u{7F}\u{1}"], true), (["no\nte": "a"], false), (["\0": "a"], false),
            (["note": "two\r\n\tlines"], true), (["filename": "Übung \u{301}\u{200F}.jpg", "filetype": "a/b"], true),
        ] as [([String: String], Bool)]
    )
    func controlCharacters(values: [String: String], isAllowed: Bool) async throws {
        let bench = ServiceBench()
        var metadata = UploadMetadata(describing: values)
        let created = await code {
            try await bench.services.uploads.create(
                NewUpload(dialect: "tus", length: 1, metadata: metadata),
                under: bench.grant()
            )
        }
        #expect(created == (isAllowed ? nil : .invalidRequest))
        let upload = try await bench.services.uploads.create(
            NewUpload(dialect: "tus", length: 1),
            under: bench.grant()
        )
        let changed = await code { try await bench.services.uploads.setMetadata(metadata, of: upload.id) }
        #expect(changed == (isAllowed ? nil : .invalidRequest))
        let minted = await code {
            try await bench.services.uploads.create(
                NewUpload(dialect: "tus", length: 1),
                under: bench.grant(metadata: values)
            )
        }
        #expect(minted == (isAllowed ? nil : .invalidRequest))
        // What was recorded by an earlier version does not keep its owner from changing something else.
        metadata.values["more"] = "text"
        #expect(throws: Never.self) { try MetadataText.check(metadata.values, known: values) }
    }

    @Test("a grant for another dialect is refused")
    func dialect() async {
        let bench = ServiceBench()
        let result = await code {
            try await bench.services.uploads.create(
                NewUpload(dialect: "tus", length: 1),
                under: bench.grant(dialect: "vimeo")
            )
        }
        #expect(result == .forbidden(scope: nil))
    }

    @Test(
        "a media type must be among the allowed ones",
        arguments: [
            ("video/mp4", ["video/mp4"], true), ("Video/MP4; codecs=x", ["video/mp4"], true),
            ("video/mp4", ["VIDEO/*"], true), ("video/mp4", ["image/png", "video/*"], true),
            ("video/mp4", ["*/*"], true), ("video/mp4", [], true), (nil, [], true),
            ("video/mp4", ["image/*"], false), (nil, ["video/*"], false), ("", ["video/*"], false),
            ("video", ["video/*"], false), ("video/", ["video/*"], false), ("videos/x", ["video/*"], false),
            ("; video/mp4", ["video/mp4"], false),
        ] as [(String?, [String], Bool)]
    )
    func contentType(declared: String?, allowed: [String], isAllowed: Bool) async {
        let bench = ServiceBench()
        let metadata = UploadMetadata(values: declared.map { ["filetype": $0] } ?? [:])
        let result = await code {
            try await bench.services.uploads.create(
                NewUpload(dialect: "tus", length: 1, metadata: metadata),
                under: bench.grant(contentTypes: allowed)
            )
        }
        #expect(result == (isAllowed ? nil : .contentTypeRefused))
    }

    @Test("a client cannot contradict the app under another name")
    func aliases() async throws {
        let bench = ServiceBench()
        let metadata = UploadMetadata(values: ["filetype": "text/html", "filename": "x.html", "name": "y"])
        let upload = try await bench.services.uploads.create(
            NewUpload(dialect: "tus", length: 1, metadata: metadata),
            under: bench.grant(contentTypes: ["image/png"], metadata: ["type": "image/png", "name": "a.png"])
        )
        #expect(upload.metadata.contentType == "image/png")
        #expect(upload.metadata.filename == "a.png")
    }

    @Test("of twenty concurrent requests with a one-time grant one creates an upload, and no blob is left over")
    func oneTime() async throws {
        let bench = ServiceBench()
        let grant = bench.grant("slg_once", isOneTime: true)
        let results = await withTaskGroup(of: UploadError.Code?.self) { group in
            for _ in 0..<20 {
                group.addTask {
                    await code {
                        try await bench.services.uploads.create(NewUpload(dialect: "tus", length: 1), under: grant)
                    }
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(results.filter { $0 == nil }.count == 1)
        #expect(results.filter { $0 == .grantUsed }.count == 19)
        #expect(try await bench.services.uploads.list(UploadQuery()).count == 1)
        #expect(try await bench.storage.list(after: nil, limit: 100).count == 1)
    }

    @Test("other grants allow many uploads")
    func manyTimes() async throws {
        let bench = ServiceBench()
        for _ in 0..<3 {
            _ = try await bench.services.uploads.create(
                NewUpload(dialect: "tus", length: 1),
                under: bench.grant("slg_many")
            )
        }
        #expect(try await bench.services.uploads.list(UploadQuery()).count == 3)
    }

    @Test("when storage or state fails nothing is left, a one-time grant stays unused, and the failure is reported")
    func failures() async throws {
        let bench = ServiceBench()
        let grant = bench.grant("slg_once", isOneTime: true)
        bench.storage.plan.fail(.create, with: UploadError(.storageFull, ""))
        bench.state.plan.fail(.insertUpload, with: UploadError(.storageFailure, ""))
        for expected in [UploadError.Code.storageFull, .storageFailure] {
            let result = await code {
                try await bench.services.uploads.create(NewUpload(dialect: "tus", length: 1), under: grant)
            }
            #expect(result == expected)
        }
        #expect(try await bench.storage.list(after: nil, limit: 100) == [])
        #expect(bench.observer.story == ["failed", "failed"])
        _ = try await bench.services.uploads.create(NewUpload(dialect: "tus", length: 1), under: grant)
    }

    @Test("an id contains its creation time")
    func idTime() {
        for milliseconds in [0, 1, 1_750_000_000_123, 281_474_976_710_655] as [Int64] {
            let date = Date(timeIntervalSince1970: Double(milliseconds) / 1000)
            let made = UploadID.generate(at: date).createdAt
            #expect(abs(made.timeIntervalSince(date)) < 0.0011)
        }
    }

    @Test("a page reads a bounded number of a user's uploads, and the next one goes on there")
    func pages() async throws {
        let bench = ServiceBench()
        let old = try await bench.services.uploads.create(NewUpload(dialect: "tus", length: 5), under: bench.grant())
        for number in 1...10_050 {
            var ended = Upload(
                id: .first(at: bench.clock.now.addingTimeInterval(Double(number))),
                dialect: old.dialect,
                subject: old.subject,
                principal: old.principal,
                length: 5,
                createdAt: bench.clock.now,
                expiresAt: nil
            )
            ended.state = .terminated
            try await bench.state.insert(ended, consuming: nil)
        }
        var query = UploadQuery(states: [.open], subject: old.subject, limit: 5)
        let first = try await bench.services.uploads.page(query)
        #expect(first.uploads.isEmpty)
        #expect(first.next != nil)
        query.before = first.next
        let second = try await bench.services.uploads.page(query)
        #expect(second.uploads.map(\.id) == [old.id] && second.next == nil)
        let exact = try await bench.services.uploads.page(UploadQuery(states: [.open], limit: 5))
        #expect(exact.uploads.map(\.id) == [old.id] && exact.next == nil)
        let all = try await bench.services.uploads.page(UploadQuery(subject: old.subject, limit: 5))
        #expect(all.uploads.count == 5 && all.next == all.uploads.last?.id)
    }
}
