import HTTPWire
import Signing
import SluiceTesting
import Testing

@testable import Gateway

@Suite("where clients reach the object endpoint")
struct ObjectURLTests {
    @Test(
        "it is scheme and host, without a port that goes without saying",
        arguments: [
            ("http://Uploads.example:8080", "9000", "http://uploads.example:9000"),
            ("https://uploads.example/prefix", "9000", "https://uploads.example:9000"),
            ("http://[::1]:8080/x", "9000", "http://[::1]:9000"), ("http://[::1]", "9000", "http://[::1]:9000"),
            ("http://uploads.example", "80", "http://uploads.example"),
            ("https://uploads.example:8443", "443", "https://uploads.example"),
            ("https://uploads.example", "80", "https://uploads.example:80"),
            ("HTTPS://s3.example:443", nil, "https://s3.example"),
            ("http://s3.example:9000", nil, "http://s3.example:9000"),
            ("http://[::1]:80", nil, "http://[::1]"), ("http://s3.example:", nil, "http://s3.example"),
        ]
    )
    func origins(url: String, port: String?, expected: String) {
        #expect(ObjectURL.origin(of: url, port: port) == expected)
    }
}

@Suite("files of Uppy")
struct CompanionFileTests {
    private func key(_ filename: String?, subject: String? = nil) throws -> String {
        try CompanionFile(filename: filename, type: nil, metadata: [:]).key(for: subject, id: "id")
    }

    @Test("the key is new each time, behind the name of the user, and without segments that clients take out of URLs")
    func keys() throws {
        #expect(try key("a.mp4") == "id-a.mp4")
        #expect(try key("C:\\films\\a b.mp4", subject: "user-42") == "user-42/id-a b.mp4")
        #expect(try key("../..", subject: "../a") == "..%2Fa/id-..")
        #expect(try key("/", subject: "..") == "%2E%2E/id-file")
        let long = try key(String(repeating: "ü", count: 2000) + ".mp4", subject: String(repeating: "ä", count: 128))
        #expect(long.utf8.count > 1022 && long.utf8.count <= 1024)
        #expect(long.hasSuffix("ü.mp4"))
        for filename in [nil, "", "a\u{0}", "a\nb"] { #expect(throws: Problem.self) { try key(filename) } }
    }

    @Test("metadata become header fields, if they can")
    func metadata() throws {
        func headers(_ metadata: [String: String]) throws -> [String] {
            try CompanionFile(filename: "a", type: nil, metadata: metadata).headers().map { "\($0.name): \($0.value)" }
        }
        #expect(
            try headers(["name": "ü", "relativePath": "a/b"]) == ["x-amz-meta-name: ü", "x-amz-meta-relativepath: a/b"]
        )
        for refused in [
            ["a b": ""], ["a:": ""], ["ü": ""], ["a": "b\r\nc"], ["a": String(repeating: "x", count: 2048)],
            ["a": "", "A": ""],
        ] {
            #expect(throws: Problem.self) { try headers(refused) }
        }
    }

    @Test("a type that is none is left out")
    func types() {
        for (type, kept) in [("video/mp4", "video/mp4"), ("undefined", nil), ("image/*", nil), ("", nil)] {
            #expect(CompanionFile(filename: "a", type: type, metadata: [:]).contentType == kept)
        }
    }
}
