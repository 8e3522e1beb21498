internal import Bytes
import Foundation
import Testing
import UploadModel
import XMLText

@testable import S3Storage

@Suite("Keys of objects and sizes of parts", .timeLimit(.minutes(10)))
struct S3SettingsTests {
    private static func blob(_ change: (inout NewBlob) -> Void = { _ in }) throws -> NewBlob {
        let id = try #require(UploadID("01jy0000000000000000000000"))
        var blob = NewBlob(id, createdAt: Date(timeIntervalSince1970: 1_767_225_599))
        change(&blob)
        return blob
    }

    @Test("a key has the parts of its template, and no value leaves its segment")
    func keys() throws {
        let template = try KeyTemplate("u/{subject}/{yyyy}/{mm}/{dd}/{id}{ext}")
        let id = "01jy0000000000000000000000"
        #expect(template.key(for: try Self.blob()) == "u/_/2025/12/31/\(id)")
        for (subject, filename, expected) in [
            ("alice", "Film.MP4", "u/alice/2025/12/31/\(id).mp4"),
            ("../../etc", "x.tar.gz", "u/..-..-etc/2025/12/31/\(id).gz"),
            ("..", ".profile", "u/_/2025/12/31/\(id)"),
            ("a/b c\u{0}", "x.m p4", "u/a-b-c-/2025/12/31/\(id)"),
            ("é", "x.mp4/..", "u/--/2025/12/31/\(id)"),
            ("", "x.", "u/_/2025/12/31/\(id)"),
        ] {
            let blob = try Self.blob { ($0.subject, $0.filename) = (subject, filename) }
            #expect(template.key(for: blob) == expected)
        }
        let long = try Self.blob { $0.subject = String(repeating: "x", count: 5000) }
        #expect(template.key(for: long).utf8.count < 200)
    }

    @Test(
        "an invalid template is refused",
        arguments: ["", "x", "{id", "{ID}", "{id}/{x}", "/{id}", "a//{id}", "a/../{id}", "./{id}", "{id}/", "{id}\n"]
    )
    func templates(text: String) {
        #expect(throws: KeyTemplate.Invalid.self) { try KeyTemplate(text) }
    }

    @Test("part sizes and largest uploads are as docs/s3.md says")
    func documentedSizes() throws {
        var settings = S3Settings(endpoint: "http://x", region: "r", bucket: "b")
        let (mebibyte, gibibyte, tebibyte) = (Int64(1) << 20, Int64(1) << 30, Int64(1) << 40)
        func size(_ number: Int) -> Int64 { settings.size(ofPart: number, base: 8 * mebibyte) }
        func total(_ numbers: Range<Int>) -> Int64 { numbers.reduce(Int64(0)) { $0 + size($1) } }
        settings.maximumParts = 1000
        #expect(total(1..<1001) / gibibyte == 653)
        settings.maximumParts = 10_000
        #expect(total(1..<10_001) / tebibyte == 6)
        let large = try #require((1...10_000).first { size($0) >= gibibyte })
        #expect(size(large) == gibibyte && total(1..<large) / gibibyte == 531)
        #expect(settings.partSize(for: tebibyte) == 210 * mebibyte)
    }

    @Test("parts have one size if the length is known, and never run out")
    func parts() throws {
        var settings = S3Settings(endpoint: "http://x", region: "r", bucket: "b")
        let (mebibyte, tebibyte) = (Int64(1) << 20, Int64(1) << 40)
        #expect(settings.partSize(for: nil) == 8 * mebibyte)
        #expect(settings.partSize(for: 0) == 8 * mebibyte)
        for (maximumParts, isEqual) in [(10_000, false), (1000, false), (10_000, true), (1000, true)] {
            settings.maximumParts = maximumParts
            settings.needsEqualParts = isEqual
            for length: Int64 in [1, 40 << 30, (40 << 30) + 1, tebibyte, 2 * tebibyte] {
                let size = try #require(settings.partSize(for: length))
                let count = (length + size - 1) / size
                #expect(count <= maximumParts)
                #expect(size % mebibyte == 0)
                for number in [1, Int(count)] { #expect(settings.size(ofPart: number, base: size) == size) }
            }
        }
        settings.maximumParts = 10_000
        settings.needsEqualParts = false
        #expect(settings.partSize(for: 30 * tebibyte) == nil)
        // Without a length, more bytes than AWS allows in an object fit.
        let total = (1...10_000).reduce(Int64(0)) { $0 + settings.size(ofPart: $1, base: 8 * mebibyte) }
        #expect(total > 5 * tebibyte)
        for number in 2...10_000 {
            let size = settings.size(ofPart: number, base: 8 * mebibyte)
            #expect(size >= settings.size(ofPart: number - 1, base: 8 * mebibyte) && size <= 5 << 30)
        }
    }

    @Test("responses of stores are parsed, and hostile ones refused")
    func responses() throws {
        let error = Array(
            "<?xml version=\"1.0\"?><Error><Code>SlowDown</Code><Message>a &amp; b</Message></Error>".utf8
        )
        let failure = S3Failure(status: 503, body: error)
        #expect(failure.kind == .away && failure.code == "SlowDown" && failure.message == "a & b")
        // In a response with status 200.
        #expect(S3Failure(status: 200, body: Array("\n\n ".utf8) + error).kind == .away)
        for (status, body, kind) in [
            (403, "<Error><Code>InvalidAccessKeyId</Code></Error>", .denied), (404, "", .missing),
            (400, "<Error><Code>EntityTooSmall</Code></Error>", .refused), (500, "not xml", .away),
            (403, "<Error><Code>QuotaExceeded</Code></Error>", .full), (507, "", .full), (400, "", .refused),
            (403, "<Error><Code>RequestTimeTooSkewed</Code></Error>", .away),
            (400, "<Error><Code>ExpiredToken</Code></Error>", .denied),
            (400, "<Error><Code>InvalidToken</Code></Error>", .denied),
            (400, "<Error><Code>TokenRefreshRequired</Code></Error>", .denied),
            (400, "<Error><Code>AuthorizationHeaderMalformed</Code></Error>", .denied),
        ] as [(Int, String, S3Failure.Kind)] {
            #expect(S3Failure(status: status, body: Array(body.utf8)).kind == kind, "\(status) \(body)")
        }
        // Without a code: an expired token.
        #expect(S3Failure(status: 400, body: [], isHead: true).isAboutCredentials)
        #expect(S3Failure(status: 404, body: [], isHead: true).kind == .missing)
        let page = try #require(
            XMLNode.parse(Array("<s:List xmlns:s=\"x\"><s:Key>ä/&lt;1&gt;</s:Key><s:Key/></s:List>".utf8))
        )
        #expect(page.name == "List")
        #expect(page.all("Key").map(\.text) == ["ä/<1>", ""])
        let deep = String(repeating: "<a>", count: 5000) + String(repeating: "</a>", count: 5000)
        let laughs =
            "<!DOCTYPE x [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;\"><!ENTITY c SYSTEM \"file:///etc/passwd\">]><x>&c;</x>"
        for text in ["", " ", "<a>", "x", deep] { #expect(XMLNode.parse(Array(text.utf8)) == nil) }
        #expect(XMLNode.parse(Array(laughs.utf8))?.text.contains("root") != true)
    }

    @Test("entity tags are compared if they are digests")
    func tags() {
        let md5 = [UInt8](repeating: 0xAB, count: 16)
        let hex = String(repeating: "ab", count: 16)
        #expect(EntityTagText.matches("\"\(hex)\"", md5))
        #expect(EntityTagText.matches(hex.uppercased(), md5))
        #expect(!EntityTagText.matches("\"\(hex)\"", [UInt8](repeating: 0, count: 16)))
        #expect(EntityTagText.matches("\"\(hex)-2\"", []))
        #expect(EntityTagText.matches("", []))
        // Two empty parts: the MD5 of two MD5s of no bytes.
        let empty = BlobPart(number: 1, size: 0, entityTag: "\"d41d8cd98f00b204e9800998ecf8427e\"")
        #expect(EntityTagText.ofMultipart([empty, empty]) == "5873dd45edd01f09c1ef2e7819369e8e-2")
        #expect(EntityTagText.ofMultipart([BlobPart(number: 1, size: 0, entityTag: "x")]) == nil)
    }
}
