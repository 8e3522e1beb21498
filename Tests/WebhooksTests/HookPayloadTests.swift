import Foundation
import Testing
import UploadModel

@testable import Webhooks

/// Members and types are those of tusd 2, plus `Subject` (https://tus.github.io/tusd/advanced-topics/hooks/, package `hooks`).
@Suite("Payloads of hooks", .timeLimit(.minutes(10)))
struct HookPayloadTests {
    private let id: UploadID
    private let part: UploadID

    init() throws {
        id = try #require(UploadID("01jd3v0m5xq4n8e2r7t9w6y1zk"))
        part = try #require(UploadID("01jd3v0m5xq4n8e2r7t9w6y1zm"))
    }

    private func upload(length: Int64? = 432_724) -> Upload {
        Upload(
            id: id,
            dialect: "tus",
            subject: "alice",
            principal: "key_1",
            length: length,
            offset: 1000,
            metadata: UploadMetadata(values: ["filename": "shot.png", "filetype": "image/png"]),
            createdAt: Date(timeIntervalSince1970: 1)
        )
    }

    private let request = RequestInfo(
        method: "PATCH",
        uri: "/files/01jd3v0m5xq4n8e2r7t9w6y1zk",
        remoteAddress: "127.0.0.1:59395",
        fields: [
            .init(name: "host", value: "localhost:8080"), .init(name: "TUS-resumable", value: "1.0.0"),
            .init(name: "x-many", value: "1"), .init(name: "X-Many", value: "2"),
        ]
    )

    private func json(_ payload: HookPayload) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(payload), as: UTF8.self)
    }

    private func expected(_ type: String, _ upload: String) -> String {
        #"{"Event":{"HTTPRequest":{"Header":{"Host":["localhost:8080"],"Tus-Resumable":["1.0.0"],"#
            + #""X-Many":["1","2"]},"Method":"PATCH","RemoteAddr":"127.0.0.1:59395","#
            + #""URI":"/files/01jd3v0m5xq4n8e2r7t9w6y1zk"},"Upload":{"# + upload + #"}},"Type":"\#(type)"}"#
    }

    private static let metadata = #""MetaData":{"filename":"shot.png","filetype":"image/png"}"#

    @Test("each hook of a usual upload", arguments: HookName.allCases)
    func usual(name: HookName) throws {
        let isNew = name == .preCreate
        let storage = isNew ? "null" : #"{"ID":"01jd3v0m5xq4n8e2r7t9w6y1zk","Type":"sluice"}"#
        let fields =
            #""ID":"\#(isNew ? "" : id.text)","IsFinal":false,"IsPartial":false,\#(Self.metadata),"Offset":1000,"#
            + #""PartialUploads":null,"Size":432724,"SizeIsDeferred":false,"Storage":\#(storage),"Subject":"alice""#
        #expect(try json(HookPayload(name, upload(), request)) == expected(name.rawValue, fields))
    }

    @Test("the subject of an upload without one is null")
    func noSubject() throws {
        var upload = upload()
        upload.subject = nil
        #expect(try json(HookPayload(.postFinish, upload, request)).contains(#""Subject":null"#))
    }

    @Test("a deferred length, a partial and a final upload, and an id and a key from the app")
    func unusual() throws {
        var partial = upload(length: nil)
        partial.concatenation = Concatenation(.partial, raw: "partial")
        let deferred = HookPayload(.postCreate, partial, request).event.upload
        #expect(deferred.size == 0)
        #expect(deferred.sizeIsDeferred)
        #expect(deferred.isPartial)
        var final = upload()
        final.concatenation = Concatenation(.final(parts: [part]), raw: "final;x")
        final.alias = "videos/1"
        final.key = "bucket/1.mp4"
        let whole = HookPayload(.postFinish, final, request).event.upload
        #expect(whole.isFinal)
        #expect(whole.partialUploads == [part.text])
        #expect(whole.id == "videos/1")
        #expect(whole.storage == ["Type": "sluice", "ID": id.text, "Key": "bucket/1.mp4"])
    }

    @Test("before it is created, an object has its name, so that the app can keep one from being replaced")
    func objects() {
        var object = upload()
        object.bucket = "uploads"
        object.key = "a/b.png"
        let before = HookPayload(.preCreate, object, request).event.upload
        #expect(before.id.isEmpty)
        #expect(before.storage == ["Type": "sluice", "Bucket": "uploads", "Key": "a/b.png"])
        object.bucket = nil
        #expect(HookPayload(.preCreate, object, request).event.upload.storage == nil)
    }

    @Test("an event without a request has an empty one")
    func noRequest() {
        let request = HookPayload(.postTerminate, upload(), nil).event.request
        #expect(request == HookPayload.Request(method: "", uri: "", remoteAddress: "", header: [:]))
    }
}

@Suite("Responses of hooks", .timeLimit(.minutes(10)))
struct HookReplyTests {
    private func reply(_ text: String, to name: HookName = .preCreate) throws(HookFailure) -> HookReply {
        try HookReply(content: Array(text.utf8), to: name)
    }

    @Test("no content, and members that a receiver in Go leaves empty, change nothing")
    func empty() throws {
        for text in [
            "", " \n", "{}", #"{"HTTPResponse":{"StatusCode":0,"Body":"","Header":null},"RejectUpload":false}"#,
        ] {
            let reply = try reply(text)
            #expect(reply.hookResponse == nil, "\(text)")
            #expect(reply.creationChanges == CreationChanges())
        }
        #expect(try reply(#"{"ChangeFileInfo":{"ID":"","MetaData":null,"Storage":null}}"#).creationChanges.alias == nil)
    }

    @Test("every member is decoded")
    func full() throws {
        let reply = try reply(
            """
            {"HTTPResponse": {"StatusCode": 402, "Body": "pay", "Header": {"X-A": "1"}}, "RejectUpload": true,
             "RejectTermination": true, "StopUpload": true, "Unknown": [1],
             "ChangeFileInfo": {"ID": "a/b", "MetaData": {}, "Storage": {"Path": "p"}}}
            """
        )
        #expect(reply.hookResponse == HookResponse(status: 402, body: "pay", fields: ["X-A": "1"]))
        #expect(reply.rejectsUpload == true && reply.rejectsTermination == true && reply.stopsUpload == true)
        #expect(reply.creationChanges == CreationChanges(alias: "a/b", metadata: [:], key: "p"))
    }

    @Test(
        "an invalid response is a failure",
        arguments: [
            "x", "[]", "null", #"{"RejectUpload":"yes"}"#, #"{"HTTPResponse":{"StatusCode":100}}"#,
            #"{"HTTPResponse":{"StatusCode":600}}"#, #"{"ChangeFileInfo":{"ID":"/a"}}"#,
            #"{"ChangeFileInfo":{"ID":"a/"}}"#, #"{"ChangeFileInfo":{"ID":"a b"}}"#, #"{"ChangeFileInfo":{"ID":"ü"}}"#,
            #"{"ChangeFileInfo":{"ID":"a?b"}}"#, #"{"ChangeFileInfo":{"MetaData":{"a":1}}}"#,
        ]
    )
    func bad(text: String) {
        #expect(throws: HookFailure.self) { try reply(text) }
    }

    /// Names of clients get into what the app answers; they must not undo its decision.
    @Test(
        "a rejection counts, whatever else is wrong with the response",
        arguments: [
            (#"{"RejectUpload":true,"ChangeFileInfo":{"ID":"u/my film.mp4"}}"#, nil),
            (#"{"RejectUpload":true,"ChangeFileInfo":{"MetaData":{"a":1}},"HTTPResponse":{"StatusCode":402}}"#, 402),
            (#"{"RejectUpload":true,"ChangeFileInfo":7,"RejectTermination":"no"}"#, nil),
            (#"{"RejectUpload":true,"HTTPResponse":{"StatusCode":1000}}"#, nil),
            (#"{"RejectUpload":true,"HTTPResponse":{"StatusCode":400,"Header":{"X-Limit":5}}}"#, nil),
        ] as [(String, Int?)]
    )
    func rejections(text: String, status: Int?) throws {
        let reply = try reply(text)
        #expect(reply.rejectsUpload == true)
        #expect(reply.hookResponse?.status == status)
        #expect(reply.creationChanges == CreationChanges())
    }

    @Test("only the decision that the hook asks for outweighs what is wrong")
    func decisions() throws {
        let wrong = #","ChangeFileInfo":{"ID":"/"}}"#
        #expect(try reply(#"{"RejectTermination":true"# + wrong, to: .preTerminate).rejectsTermination == true)
        #expect(try reply(#"{"StopUpload":true"# + wrong, to: .postReceive).stopsUpload == true)
        for (member, name) in [
            ("RejectUpload", HookName.preTerminate), ("RejectUpload", .preFinish), ("RejectTermination", .preCreate),
            ("StopUpload", .preCreate),
        ] {
            #expect(throws: HookFailure.self, "\(member)") { try reply("{\"\(member)\":true" + wrong, to: name) }
        }
        #expect(throws: HookFailure.self) { try reply(#"{"RejectUpload":false"# + wrong) }
    }

    @Test("a response that cannot be used is no outage of the app")
    func unusable() {
        for text in ["x", #"{"ChangeFileInfo":{"ID":"a b"}}"#, #"{"HTTPResponse":{"StatusCode":99}}"#] {
            #expect(throws: HookFailure.self) {
                do throws(HookFailure) {
                    _ = try reply(text)
                } catch {
                    #expect(!error.isOutage && !error.isTransient)
                    throw error
                }
            }
        }
    }

    @Test("the pause between attempts grows to at most an hour")
    func pauses() {
        for (attempt, seconds) in [(1, 1.0), (2, 2), (5, 16), (12, 2048), (13, 3600), (1000, 3600)] {
            let pause = HookDispatcher.pause(after: attempt)
            #expect((seconds * 0.8...seconds * 1.2).contains(pause), "\(attempt)")
        }
    }
}
