import CloudCalls
import Foundation
import SluiceTesting
import Testing

@testable import AliyunVOD

@Suite("Parameters of calls of ApsaraVideo VOD", .timeLimit(.minutes(10)))
struct ApsaraParametersTests {
    private func parameters(_ values: [(String, String)]) throws -> ApsaraParameters {
        try ApsaraParameters(values.map { (name: $0.0, value: $0.1) })
    }

    @Test("a parameter is what was sent; an empty one counts as missing, but was sent")
    func values() async throws {
        let parameters = try parameters([("A", "x"), ("B", ""), ("a", "y")])
        #expect(parameters["A"] == "x" && parameters["a"] == "y" && parameters["B"] == nil && parameters["C"] == nil)
        #expect(parameters.has("A") && parameters.has("B") && !parameters.has("C"))
        #expect(try parameters.required("A") == "x")
        for name in ["B", "C"] {
            #expect(try await code { _ = try parameters.required(name) } == "MissingParameter")
        }
    }

    @Test("a repeated parameter is refused, also with the same value")
    func repeated() async throws {
        for value in ["x", "y", ""] {
            #expect(try await code { _ = try parameters([("A", "x"), ("A", value)]) } == "InvalidParameter")
        }
    }

    @Test("a text has at most so many scalars, and no control characters")
    func texts() async throws {
        func text(_ value: String, _ limit: Int) async throws -> String? {
            try await code { _ = try parameters([("A", value)]).text("A", atMost: limit) }
        }
        #expect(try await text("üü", 2) == nil)
        #expect(try await text("üüü", 2) == "LengthExceededMax")
        // One character of five scalars.
        #expect(try await text("👨‍👩‍👧", 4) == "LengthExceededMax")
        #expect(try await text("a\nb\r\tc", 10) == nil)
        for scalar in ["\0", "\u{1}", "\u{1B}", "\u{7F}", "\u{85}", "\u{FFFE}", "\u{1FFFF}"] {
            #expect(try await text("a\(scalar)", 10) == "IllegalCharacters")
        }
        #expect(try parameters([]).text("A", atMost: 1) == nil)
    }

    @Test(
        "numbers are whole, and in their range",
        arguments: [
            ("0", true), ("10", true), ("-1", false), ("11", false), ("+5", false), ("5.0", false), ("5x", false),
            (" 5", false), ("0x5", false), ("٥", false), ("99999999999999999999", false), ("1e1", false), ("05", true),
        ]
    )
    func numbers(_ text: String, _ isTaken: Bool) async throws {
        let refused = try await code { _ = try parameters([("A", text)]).integer("A", in: 0...10) }
        #expect(refused == (isTaken ? nil : "InvalidParameter"))
    }

    @Test("a choice is compared exactly")
    func choices() async throws {
        for (text, isTaken) in [("on", true), ("off", true), ("On", false), ("on ", false), ("x", false)] {
            let refused = try await code { _ = try parameters([("A", text)]).choice("A", of: ["on", "off"]) }
            #expect(refused == (isTaken ? nil : "InvalidParameter"))
        }
        #expect(try parameters([]).choice("A", of: ["on"]) == nil)
    }

    @Test("lists are separated by commas, without spaces around and empty members")
    func lists() throws {
        for (text, list) in [
            ("a", ["a"]), ("a,b", ["a", "b"]), (" a , b ,", ["a", "b"]), (",,", []), ("", []), ("a b", ["a b"]),
        ] {
            #expect(try parameters([("A", text)]).list("A") == list)
        }
    }

    @Test("tags are at most 16 of 32 characters")
    func tags() async throws {
        func tags(_ text: String) async throws -> String? {
            try await code { _ = try parameters([("Tags", text)]).tags() }
        }
        #expect(try parameters([]).tags() == nil)
        #expect(try parameters([("Tags", "")]).tags() == [])
        #expect(try await tags([String](repeating: "a", count: 16).joined(separator: ",")) == nil)
        #expect(try await tags([String](repeating: "a", count: 17).joined(separator: ",")) == "TagsExceededMax")
        #expect(try await tags("a,\(String(repeating: "ü", count: 32))") == nil)
        #expect(try await tags("a,\(String(repeating: "ü", count: 33))") == "LengthExceededMax")
        #expect(try await tags("a,\u{1}") == "IllegalCharacters")
    }

    @Test(
        "a reference id has 6 to 64 letters, digits, hyphens and underscores",
        arguments: [
            ("abcdef", true), ("A-b_9-", true), ("abcde", false), (String(repeating: "a", count: 64), true),
            (String(repeating: "a", count: 65), false), ("abc/ef", false), ("abc.ef", false), ("abcdeü", false),
            ("abc ef", false), ("abcde\0", false),
        ]
    )
    func references(_ text: String, _ isTaken: Bool) async throws {
        let refused = try await code { _ = try parameters([("ReferenceId", text)]).referenceID() }
        #expect(refused == (isTaken ? nil : "InvalidParameter"))
    }

    @Test(
        "a name is the last segment of a path, and its extension letters and digits",
        arguments: [
            ("v.mp4", "v.mp4", "mp4"), ("/var/mobile/Media/v.MOV", "v.MOV", "mov"),
            (#"C:\films\v.mp4"#, "v.mp4", "mp4"),
            ("a/../../v.mp4", "v.mp4", "mp4"), ("..", "..", nil), ("v", "v", nil), ("v.", "v.", nil), ("", "", nil),
            ("/", "", nil), (".mp4", ".mp4", "mp4"), ("a.b.tar", "a.b.tar", "tar"), ("v.m p4", "v.m p4", nil),
            ("v.mpü", "v.mpü", nil), ("v.mp4?x=1", "v.mp4?x=1", nil),
            (
                "v.0123456789abcdef", "v.0123456789abcdef",
                "0123456789abcdef"
            ), ("v.0123456789abcdefg", "v.0123456789abcdefg", nil), ("d.x/v", "v", nil),
            ("v.mp4/", "v.mp4", "mp4"),
        ]
    )
    func fileNames(_ path: String, _ name: String, _ suffix: String?) {
        let found = ApsaraFileName(path: path)
        #expect(found.name == name && found.suffix == suffix)
    }

    @Test("every text makes a name and an extension that fit into a key")
    func randomNames() {
        var random = SeededGenerator(seed: 53)
        let parts = ["/", "\\", ".", "..", "a", "MP4", "ü", "\u{301}", "\0", "影", "%2F", " ", "?", "👨‍👩‍👧"]
        for _ in 0..<5000 {
            let path = (0..<Int.random(in: 0...12, using: &random)).map { _ in
                parts[Int.random(in: 0..<parts.count, using: &random)]
            }.joined()
            let found = ApsaraFileName(path: path)
            #expect(!found.name.contains("/") && !found.name.contains("\\"))
            if let suffix = found.suffix { #expect(ApsaraFileName.isSuffix(suffix)) }
        }
    }
}
