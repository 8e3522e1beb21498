import Bytes
import RESTKit
import Signing
import Testing

@testable import Companion

@Suite("files of Uppy", .timeLimit(.minutes(10)))
struct CompanionFileTests {
    private func key(_ filename: String?, subject: String? = nil) throws -> String {
        try CompanionFile(filename: filename, type: nil, metadata: [:]).key(for: subject, id: "id")
    }

    @Test("each key is new, prefixed with the user's name, and without segments that clients remove from URLs")
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

    @Test("metadata becomes header fields where possible")
    func metadata() throws {
        func headers(_ metadata: ExactNames<String>) throws -> [String] {
            try CompanionFile(filename: "a", type: nil, metadata: metadata).headers().map { "\($0.name): \($0.value)" }
        }
        #expect(
            try headers(["name": "ü", "relativePath": "a/b"]) == ["x-amz-meta-name: ü", "x-amz-meta-relativepath: a/b"]
        )
        for refused in [
            ["a b": ""], ["a:": ""], ["ü": ""], ["a": "b\r\nc"], ["a": String(repeating: "x", count: 2048)],
            ["a": "", "A": ""], ["K": "", "\u{212A}": ""],
        ] as [ExactNames<String>] {
            #expect(throws: Problem.self) { try headers(refused) }
        }
    }

    @Test("an invalid media type is omitted")
    func types() {
        for (type, kept) in [("video/mp4", "video/mp4"), ("undefined", nil), ("image/*", nil), ("", nil)] {
            #expect(CompanionFile(filename: "a", type: type, metadata: [:]).contentType == kept)
        }
    }
}
