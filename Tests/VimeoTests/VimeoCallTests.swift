import Bytes
import Foundation
import HTTPWire
import Testing

@testable import Vimeo

@Suite("Calls of Vimeo's API as clients write them", .timeLimit(.minutes(10)))
struct VimeoCallTests {
    private static func body(_ text: String, _ type: String? = "application/json") throws -> VimeoBody {
        try VimeoBody(Array(text.utf8), type: type)
    }

    private static func fields(_ error: VimeoError?) -> [String] { error?.failure.parameters.map(\.field) ?? [] }

    @Test(
        "a member that occurs twice is refused, in a form as in JSON",
        arguments: [
            ("name=a&name=b", "{\"name\":\"a\",\"name\":\"b\"}"), ("name=a&name=a", "{\"name\":\"a\",\"name\":\"a\"}"),
            ("privacy.view=a&privacy.view=b", "{\"privacy\":{\"view\":\"a\",\"view\":\"b\"}}"),
            ("privacy=a&privacy.view=b", "{\"privacy\":\"a\",\"privacy\":{\"view\":\"b\"}}"),
            ("privacy.view=a&privacy=b", "{\"privacy\":{\"view\":\"a\"},\"privacy\":\"b\"}"),
            ("a.b.c=1&a.b=2", "{\"a\":{\"b\":{\"c\":1},\"b\":2}}"),
            ("n%61me=a&name=b", "{\"n\\u0061me\":\"a\",\"name\":\"b\"}"),
        ]
    )
    func repeatedMembers(form: String, json: String) throws {
        for (text, type) in [(form, "application/x-www-form-urlencoded"), (json, "application/json")] {
            let failure = #expect(throws: VimeoError.self) { try Self.body(text, type) }?.failure
            #expect(failure?.status == 400)
        }
    }

    @Test("members come as JSON or as a form, whatever the type says")
    func bodies() throws {
        let json = try Self.body(#"{"name": "N", "privacy": {"view": "nobody", "add": "false"}, "chunk_size": 5}"#)
        for body in [
            json, try Self.body("name=N&privacy.view=nobody&privacy.add=false", "application/x-www-form-urlencoded"),
            try Self.body("name=N&privacy.view=nobody&privacy.add=false", "text/plain"),
            try Self.body("name=N&privacy.view=nobody&privacy.add=false", nil),
            try Self.body(#" {"name": "N", "privacy": {"view": "nobody", "add": false}}"#, nil),
        ] {
            var (labels, body) = (VimeoVideo.Labels(), body)
            labels.read(&body)
            #expect(body.problems.isEmpty)
            #expect(labels.name == "N" && labels.view == "nobody" && !labels.canAdd)
        }
        #expect(try Self.body("", nil) == VimeoBody())
        #expect(try Self.body(" \r\n", "application/json") == VimeoBody())
    }

    @Test(
        "what is neither is refused with 2205",
        arguments: ["{", "[]", "{}{}", #"{"a":1,"a":2}"#, "a=%zz", "a=%00", String(repeating: "{\"a\":", count: 200)]
    )
    func malformed(text: String) {
        for type in ["application/json", nil] as [String?] {
            if text.hasPrefix("["), type == nil { continue }
            if text.hasPrefix("a"), type != nil { continue }
            let failure = #expect(throws: VimeoError.self) { try Self.body(text, type) }?.failure
            #expect(failure?.code == 2205 && failure?.status == 400)
        }
    }

    @Test("limits of texts count Unicode scalars: one character has any number of them")
    func lengths() throws {
        for mark in ["\u{20DD}", "\u{200D}", "\u{E0061}"] {
            for (name, limit) in [
                ("name", 128), ("description", 5000), ("password", 32), ("license", 32), ("locale", 32),
            ] {
                for count in [limit, limit + 1, 50_000] {
                    let text = "a" + String(repeating: mark, count: count - 1)
                    var (labels, body) = (VimeoVideo.Labels(), try Self.body(#"{"\#(name)": "\#(text)"}"#))
                    labels.read(&body)
                    #expect(body.problems.map(\.field) == (count == limit ? [] : [name]), "\(name) \(count)")
                }
            }
        }
    }

    @Test(
        "sizes are numbers, texts, or either with a fraction of zeros",
        arguments: [
            ("5", 5), ("\"5\"", 5), ("5.0", 5), ("\"5.0\"", 5), ("\"5.00\"", 5), ("0", 0), ("null", nil),
            ("9223372036854775807", Int64.max),
        ] as [(String, Int64?)]
    )
    func sizes(text: String, size: Int64?) throws {
        var body = try Self.body(#"{"upload": {"size": \#(text)}}"#)
        #expect(body.size("upload.size") == size)
        #expect(body.problems.isEmpty)
    }

    @Test(
        "other sizes are refused",
        arguments: ["-1", "\"-1\"", "\"x\"", "1.5", "\"1.5\"", "\"\"", "true", "[]", "{}", "\"1.\"", "1e30", "\" 5\""]
    )
    func badSizes(text: String) throws {
        var body = try Self.body(#"{"upload": {"size": \#(text)}}"#)
        #expect(body.size("upload.size") == nil)
        #expect(body.problems.map(\.code) == [2254])
    }

    @Test("every member that is wrong is named")
    func invalid() throws {
        let text = String(repeating: "x", count: 5001)
        var body = try Self.body(
            #"{"name": "\#(text)", "description": "\#(text)", "privacy": {"view": "all", "download": 7}, "upload": {"approach": "ftp", "size": -1}}"#
        )
        let failure = #expect(throws: VimeoError.self) { try VimeoVideoCalls.video(&body) }?.failure
        #expect(failure?.code == 2204)
        #expect(
            failure?.parameters.map { "\($0.field) \($0.code)" } == [
                "name 2250", "description 2251", "privacy.view 2232", "privacy.download 2204", "upload.approach 2230",
                "upload.size 2254",
            ]
        )
        var protected = try Self.body(#"{"privacy": {"view": "password"}, "upload": {"approach": "tus", "size": 1}}"#)
        #expect(
            Self.fields(#expect(throws: VimeoError.self) { try VimeoVideoCalls.video(&protected) }) == ["password"]
        )
        var unsized = try Self.body(#"{"upload": {"approach": "tus"}}"#)
        #expect(
            Self.fields(#expect(throws: VimeoError.self) { try VimeoVideoCalls.video(&unsized) }) == ["upload.size"]
        )
        var gcs = try Self.body(#"{"upload": {"approach": "gcs", "size": 1}}"#)
        #expect(
            Self.fields(#expect(throws: VimeoError.self) { try VimeoVideoCalls.video(&gcs) }) == ["upload.approach"]
        )
        var lost = VimeoBody()
        #expect(try VimeoVideoCalls.video(&lost).approach == .post)
    }

    @Test(
        "the version is found in every spelling of Accept",
        arguments: [
            ("application/vnd.vimeo.*+json;version=3.4", VimeoVersion.new),
            ("application/vnd.vimeo.*+json; version=3.4", .new), ("application/vnd.vimeo.*;version=3.4", .new),
            ("application/vnd.vimeo.*+json; version=3.4, application/json", .new),
            ("application/vnd.vimeo.*+json; version=3.4.2", .new),
            ("application/vnd.vimeo.*+json;version=\"3.5\"", .new),
            ("application/vnd.vimeo.*+json;version=4", .new), ("application/vnd.vimeo.*+json;version=3.10", .new),
            ("application/vnd.vimeo.*;version=3.2", .old), ("application/vnd.vimeo.*+json; version=3.3.1", .old),
            ("application/vnd.vimeo.*+json;version=3", .old), ("*/*", .unknown), ("application/json", .unknown),
            ("application/json;version=x", .unknown), (nil, .unknown),
        ] as [(String?, VimeoVersion)]
    )
    func versions(accept: String?, version: VimeoVersion) {
        #expect(VimeoVersion(accept: accept) == version)
    }

    @Test("members of another version are refused with 3116; without a version they decide")
    func mismatch() throws {
        let new = try Self.body(#"{"upload": {"approach": "tus", "size": 1}}"#)
        let old = try Self.body(#"{"type": "streaming"}"#)
        #expect(try VimeoVersion.new.decided(by: new) == .new)
        #expect(try VimeoVersion.old.decided(by: old) == .old)
        #expect(try VimeoVersion.unknown.decided(by: new) == .new)
        #expect(try VimeoVersion.unknown.decided(by: old) == .old)
        #expect(try VimeoVersion.unknown.decided(by: VimeoBody()) == .new)
        #expect(#expect(throws: VimeoError.self) { try VimeoVersion.new.decided(by: old) }?.failure == .wrongVersion)
        #expect(#expect(throws: VimeoError.self) { try VimeoVersion.old.decided(by: new) }?.failure == .wrongVersion)
    }

    @Test("`fields` keeps what it names, in any order, repeated or not, and descends into lists")
    func filter() {
        let document = JSONValue.object([
            "uri": .string("/videos/1"), "name": .null,
            "upload": .object(["size": .integer(1), "link": .string("l")]),
            "sizes": .array([.object(["w": .integer(1), "h": .integer(2)]), .integer(7)]),
        ])
        func kept(_ values: String...) -> JSONValue { VimeoFields(values).applied(to: document) }
        #expect(kept() == document)
        #expect(kept("") == document)
        #expect(kept(",") == document)
        let both = JSONValue.object(["uri": .string("/videos/1"), "upload": .object(["size": .integer(1)])])
        for values in [
            ["uri,upload.size"], ["upload.size,uri"], ["uri", "upload.size"], ["uri,uri", "upload.size,uri"],
            [" uri, upload.size"],
        ] {
            #expect(VimeoFields(values).applied(to: document) == both)
        }
        #expect(
            kept("upload.size,upload") == .object(["upload": .object(["size": .integer(1), "link": .string("l")])])
        )
        #expect(kept("sizes.w") == .object(["sizes": .array([.object(["w": .integer(1)]), .integer(7)])]))
        #expect(kept("uri.x") == .object(["uri": .string("/videos/1")]))
        #expect(kept("nothing") == .object([:]))
        #expect(kept("error") == .object([:]))
    }

    @Test(
        "paths name resources; a slash at the end means nothing",
        arguments: [
            ("/me", VimeoResource.user(nil)), ("/me/", .user(nil)), ("/me/videos", .videos(nil)),
            ("/me/videos/", .videos(nil)),
            ("/users/7", .user(7)), ("/users/7/videos", .videos(7)),
            ("/users/7/uploads/8", .upload(user: 7, ticket: 8)),
            ("/videos/9/files", .files(9)), ("/videos/9/versions", .versions(9)),
            ("/videos/9/versions/7", .version(video: 9, 7)), ("/videos/9/versions/x", nil),
            ("/videos/9/versions/7/x", nil), ("/videos/9/pictures", .attachments(.picture, video: 9)),
            ("/videos/9/pictures/7", .attachment(.picture, video: 9, 7)),
            ("/videos/9/texttracks/", .attachments(.textTrack, video: 9)),
            ("/videos/9/texttracks/7", .attachment(.textTrack, video: 9, 7)), ("/videos/9/status/7", nil),
            ("/videos/9/pictures/x", nil), ("/videos/9/pictures/7/x", nil),
            ("/videos/9", .video(9)), ("/videos/9/status", .status(9)), ("/oauth/authorize/client", .clientToken),
            ("/oauth/access_token", .codeToken), ("/oauth/verify", .verify), ("/tokens", .tokens),
            ("/videos", nil), ("/videos/x", nil), ("/videos/09", nil), ("/videos/-1", nil), ("/videos/9/x", nil),
            ("/users/me", nil), ("/users/7/uploads", nil), ("/me/x", nil), ("/oauth", nil), ("/oauth/authorize", nil),
            ("/videos/99999999999999999", nil), ("/me//", nil),
        ] as [(String, VimeoResource?)]
    )
    func resources(path: String, resource: VimeoResource?) throws {
        #expect(VimeoResource(try RequestTarget(parsing: path, method: .get).segments) == resource)
    }
}
