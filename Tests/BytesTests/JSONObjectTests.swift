import Bytes
import Foundation
import Testing

@Suite("JSON objects written by hand", .timeLimit(.minutes(10)))
struct JSONObjectTests {
    private static let texts = ["", "plain", "\"\\/\n\r\t\u{0}\u{1F}", "日本 \u{1F600}", "\u{7F}", ",\":{}"]

    @Test("any text is decoded unchanged", arguments: texts)
    func roundTrip(text: String) throws {
        var json = JSONObjectWriter(capacity: 8)
        json.member("a", Int64.min)
        json.member(text, text)
        json.member("list", [text, "b"])
        json.member("empty", [])
        json.member("flag", true)
        json.member("inner", json: #"{"b":"c"}"#)
        let members = try #require(JSONValue(json: json.finish())?.members)
        #expect(
            members == [
                "a": .integer(.min), text: .string(text), "list": .array([.string(text), .string("b")]),
                "empty": .array([]), "flag": .bool(true), "inner": .object(["b": .string("c")]),
            ]
        )
    }

    @Test("members are ordered by name, and a line feed is added on request")
    func order() {
        var json = JSONObjectWriter(["b": "2", "a": "1", "c": ""])
        #expect(
            String(decoding: json.finish(lineFeed: true), as: UTF8.self) == "{\"a\":\"1\",\"b\":\"2\",\"c\":\"\"}\n"
        )
        var empty = JSONObjectWriter([:])
        #expect(empty.text() == "{}")
    }

    @Test(
        "what is read without a decoder is what a decoder reads; anything else is left to it",
        arguments: texts,
        texts
    )
    func plain(name: String, value: String) throws {
        var object = JSONObjectWriter([name: value, "z": "end"])
        let text = object.text()
        let decoded = try JSONDecoder().decode([String: String].self, from: Data(text.utf8))
        #expect(decoded == [name: value, "z": "end"])
        let plain = PlainJSON.texts(in: text)
        #expect(plain == (text.contains("\\") ? nil : decoded))
    }

    @Test(
        "other JSON is not read without a decoder",
        arguments: [
            "", "{", "}", "[]", "{ }", #"{"a":1}"#, #"{"a":"b",}"#, #"{,"a":"b"}"#, #"{"a" :"b"}"#,
            #"{"a":"b""c":"d"}"#,
            #"{"a":"b","a":"c"}"#, #"{"a":"b"}}"#, #"{"a"}"#, #"{"a":}"#, #"{"a":"b"#, #"{"a\u0062":"c"}"#,
            "{\"a\":\"\\\"}",
        ]
    )
    func notPlain(text: String) {
        #expect(PlainJSON.texts(in: text) == nil)
    }
}
