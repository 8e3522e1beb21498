import Foundation
import Testing

@testable import Bytes

@Suite("Strict JSON", .timeLimit(.minutes(10)))
struct JSONSyntaxTests {
    @Test(
        "valid JSON is accepted",
        arguments: [
            "{}", "[]", " [ ] ", "null", "true", "false", "0", "-0", "12.50e+3", "1E-2", "\"\"", "{\"a\":1}",
            "{ \"a\" : [ 1 , { } , \"b\" ] ,\n\t\"c\" : null }\r\n", "[[[]],{\"\":{}}]",
            "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\"",
            "\"漢字 😀 \u{7F}\"",
        ]
    )
    func valid(_ text: String) throws {
        #expect(JSONSyntax.isValid(Array(text.utf8)))
        // Foundation must agree with the scanner.
        _ = try JSONSerialization.jsonObject(with: Data(text.utf8), options: .fragmentsAllowed)
    }

    @Test(
        "invalid JSON is refused",
        arguments: [
            "", " ", "OK", "{", "}", "[1,]", "{\"a\":1,}", "[,1]", "{,}", "[1 2]", "{\"a\" 1}", "{a:1}", "{1:1}",
            "{\"a\"}", "{\"a\":}", "[}", "{]", "1 1", "01", "-", "+1", "1.", ".5", "1e", "1e+", "0x1", "nul", "True",
            "'a'", "\"a", "\"\\", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", "\"\n\"", "\"\u{0}\"", "[1]]", "\u{FEFF}{}",
            "/**/1",
            "NaN", "{\"a\":1 \"b\":2}", "[\"a\",,1]", "\u{A0}1",
            // A second value that begins where the first one fails.
            "1.true", "1enull", "-true", "\"\\x1", "\"\n5", "{\"a\":1.null}", "[\"\\q-7]", "\"\\u12g4true",
        ]
    )
    func invalid(_ text: String) {
        #expect(!JSONSyntax.isValid(Array(text.utf8)))
    }

    @Test(
        "text that is not UTF-8 is refused",
        arguments: [[0x22, 0xFF, 0x22], [0x22, 0xC3, 0x22], [0xFF, 0xFE, 0x31, 0x00], [0x31, 0x00]]
    )
    func notUTF8(_ bytes: [UInt8]) {
        #expect(!JSONSyntax.isValid(bytes))
    }

    @Test("nesting is limited and does not use the stack")
    func depth() {
        func nested(_ depth: Int) -> [UInt8] {
            Array(String(repeating: "[", count: depth) + "1" + String(repeating: "]", count: depth)).flatMap { $0.utf8 }
        }
        #expect(JSONSyntax.isValid(nested(JSONSyntax.maximumDepth)))
        #expect(!JSONSyntax.isValid(nested(JSONSyntax.maximumDepth + 1)))
        #expect(!JSONSyntax.isValid([UInt8](repeating: UInt8(ascii: "["), count: 1 << 20)))
    }
}
