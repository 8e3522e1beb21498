import Foundation
import SluiceTesting
import Testing

@testable import Bytes

@Suite("Reading JSON", .timeLimit(.minutes(10)))
struct JSONReaderTests {
    private static func read(_ text: String) -> JSONValue? { JSONValue(json: Array(text.utf8)) }

    @Test(
        "values",
        arguments: [
            ("null", .null), (" true\r\n", .bool(true)), ("\tfalse", .bool(false)), ("0", .integer(0)),
            ("-0", .integer(0)),
            ("9223372036854775807", .integer(.max)), ("-9223372036854775808", .integer(.min)),
            ("9223372036854775808", .number(9_223_372_036_854_775_808)), ("1.5", .number(1.5)), ("1.0", .integer(1)),
            ("1e3", .integer(1000)), ("-1.25E-2", .number(-0.0125)), ("[]", .array([])), ("{ }", .object([:])),
            (#""\u0041\n\/\\\"\b\f\r\t\ud83d\ude00é""#, .string("A\n/\\\"\u{8}\u{c}\r\t😀é")), (#""""#, .string("")),
            (
                #"{"a":[1,{"b":null}],"\u0062":"x"}"#,
                .object([
                    "a": .array([.integer(1), .object(["b": .null])]), "b": .string("x"),
                ])
            ), (#"{"a":1,"a":2}"#, .object(["a": .integer(1)])), ("\u{feff}1", .integer(1)),
        ] as [(String, JSONValue)]
    )
    func values(text: String, value: JSONValue) {
        #expect(Self.read(text) == value)
    }

    @Test(
        "what RFC 8259 does not allow",
        arguments: [
            "", " ", "nul", "tru", "True", "+1", "01", "-", "1.", ".5", "1e", "1e+", "0x1", "NaN", "Infinity", "1e999",
            "1 2",
            "[", "]", "[1,]", "[,1]", "[1 2]", "{", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{,}", "{a:1}", "{'a':1}",
            "{\"a\":1]",
            "\"", "\"\\\"", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", "\"\\ud800\"", "\"\\udc00\"", "\"\\ud800\\u0041\"",
            "\"\n\"",
            "\"\u{1}\"", "\"a", "// x\n1", "\u{feff}\u{feff}1",
        ]
    )
    func malformed(text: String) {
        #expect(Self.read(text) == nil)
    }

    @Test("other encodings are refused", arguments: [String.Encoding.utf16, .utf16LittleEndian, .utf32BigEndian])
    func encodings(encoding: String.Encoding) throws {
        let json = try #require(#"{"a":1}"#.data(using: encoding))
        #expect(JSONValue(json: Array(json)) == nil)
        #expect(JSONValue(json: Array("\"".utf8) + [0xC3] + Array("\"".utf8)) == nil)
    }

    @Test("a document has a limited depth, so that its reader needs little of the stack")
    func depth() {
        let most = JSONValue.maximumDepth
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let inner = open == "[" ? "" : "1"
            func nested(_ depth: Int) -> String {
                String(repeating: open, count: depth) + inner + String(repeating: close, count: depth)
            }
            #expect(Self.read(nested(most)) != nil)
            #expect(Self.read(nested(most + 1)) == nil)
            #expect(Self.read(nested(100_000)) == nil)
            #expect(Self.read("[" + nested(most - 1) + "," + nested(most - 1) + "]") != nil)
        }
    }

    /// What was read by `JSONDecoder` before.
    private enum Reference: Decodable {
        case value(JSONValue)

        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if container.decodeNil() {
                self = .value(.null)
            } else if let value = try? container.decode(Bool.self) {
                self = .value(.bool(value))
            } else if let value = try? container.decode(Int64.self) {
                self = .value(.integer(value))
            } else if let value = try? container.decode(Double.self) {
                self = .value(.number(value))
            } else if let value = try? container.decode(String.self) {
                self = .value(.string(value))
            } else if let values = try? container.decode([Reference].self) {
                self = .value(.array(values.map(\.value)))
            } else {
                self = .value(.object(JSONMembers(try container.decode([String: Reference].self).mapValues(\.value))))
            }
        }

        var value: JSONValue {
            switch self {
            case .value(let value): value
            }
        }
    }

    @Test("the same is read as by Foundation, and what it refuses is not JSON", arguments: 0..<40)
    func same(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        for _ in 0..<100 {
            var json = Array(Self.document(4, &generator).utf8)
            let expected = try? JSONDecoder().decode(Reference.self, from: Data(json))
            let whole = String(decoding: json, as: UTF8.self)
            #expect(expected != nil && JSONValue(json: json) == expected?.value, "\(whole)")
            // And something wrong.
            for _ in 0..<Int.random(in: 1...3, using: &generator) where !json.isEmpty {
                let index = Int.random(in: json.indices, using: &generator)
                switch Int.random(in: 0..<3, using: &generator) {
                case 0: json.remove(at: index)
                case 1: json[index] = Array("{}[]\",:\\u09-.eE \u{1}é".utf8).randomElement(using: &generator) ?? 0
                default: json.insert(Array("{}[]\",:\\u09-.eE ".utf8).randomElement(using: &generator) ?? 0, at: index)
                }
            }
            let text = String(decoding: json, as: UTF8.self)
            if let value = JSONValue(json: json) {
                #expect(JSONSyntax.isValid(json), "\(text)")
                let expected = try? JSONDecoder().decode(Reference.self, from: Data(json))
                if JSONNames.areUnique(in: json) { #expect(Self.isSame(expected?.value, value), "\(text)") }
            } else if JSONSyntax.isValid(json) {
                // Halves of pairs, and numbers beyond all limits.
                let decoded = try? JSONDecoder().decode(Reference.self, from: Data(json))
                #expect(decoded == nil, "\(text)")
            }
        }
    }

    /// Foundation reads fractions beyond 2^53 exactly, which others do not.
    private static func isSame(_ one: JSONValue?, _ other: JSONValue?) -> Bool {
        switch (one, other) {
        case (.integer(let one)?, .integer(let other)?): Double(one) == Double(other)
        case (.array(let one)?, .array(let other)?):
            one.count == other.count && zip(one, other).allSatisfy { isSame($0, $1) }
        case (.object(let one)?, .object(let other)?):
            one.count == other.count && one.allSatisfy { isSame($0.value, other[$0.key]) }
        default: one == other
        }
    }

    private static func document(_ depth: Int, _ generator: inout SeededGenerator) -> String {
        func space(_ generator: inout SeededGenerator) -> String {
            ["", "", "", " ", "\n\t ", "\r\n"].randomElement(using: &generator) ?? ""
        }
        func text(_ generator: inout SeededGenerator) -> String {
            let pieces = [
                "a", "é", "😀", "\\n", "\\u00e9", "\\ud83d\\ude00", "\\\"", "\\\\", "/", "{", "]", ":", ",", "\u{7f}",
            ]
            return (0..<Int.random(in: 0..<5, using: &generator)).map { _ in
                pieces.randomElement(using: &generator) ?? ""
            }.joined()
        }
        let before = space(&generator)
        let value: String
        switch Int.random(in: 0..<(depth > 0 ? 8 : 6), using: &generator) {
        case 0: value = ["null", "true", "false"].randomElement(using: &generator) ?? "null"
        case 1: value = String(Int64.random(in: .min ... .max, using: &generator))
        case 2: value = String(Int64.random(in: -10...10, using: &generator))
        case 3: value = "\(Double.random(in: -1e6...1e6, using: &generator))"
        case 4:
            let whole = Int.random(in: -99...99, using: &generator)
            let fraction = Int.random(in: 0..<99, using: &generator)
            value = "\(whole).\(fraction)e\(Int.random(in: -30...30, using: &generator))"
        case 5: value = "\"\(text(&generator))\""
        case 6:
            var elements: [String] = []
            for _ in 0..<Int.random(in: 0..<5, using: &generator) { elements.append(document(depth - 1, &generator)) }
            value = "[\(elements.isEmpty ? before : elements.joined(separator: ","))]"
        default:
            var members: [String] = []
            for number in 0..<Int.random(in: 0..<5, using: &generator) {
                members.append("\(before)\"\(text(&generator))\(number)\"\(before):\(document(depth - 1, &generator))")
            }
            value = "{\(members.joined(separator: ","))}"
        }
        return before + value + space(&generator)
    }
}
