import CloudCalls
import Foundation
import Signing
import Testing

@testable import TencentVOD

@Suite("Parameters of calls of Tencent VOD's API", .timeLimit(.minutes(10)))
struct VODParametersTests {
    private func json(_ text: String) throws -> VODParameters { try VODParameters(json: Array(text.utf8)) }

    private func fields(_ fields: [(String, String)]) throws -> VODParameters {
        try VODParameters(fields: fields.map { SigningField($0.0, $0.1) })
    }

    /// The code with which something is refused; `nil` if it is not.
    private func code(_ body: () throws -> Void) throws -> String? {
        do {
            try body()
            return nil
        } catch let error as VODError {
            return error.callFailure?.code
        }
    }

    @Test("members of JSON and fields with dots give the same values")
    func forms() throws {
        let members = #"""
            {"FileIds": ["1", "2"], "ClassIds": [3, "-4"], "Limit": 5, "Offset": "6", "Name": "a b", "Empty": "",
            "Sort": {"Field": "CreateTime", "Order": "Asc"}, "CreateTime": {"After": "2026-01-31T12:00:00Z"}}
            """#
        let dotted = [
            ("FileIds.1", "2"), ("FileIds.0", "1"), ("ClassIds.0", "3"), ("ClassIds.1", "-4"), ("Limit", "5"),
            ("Offset", "6"), ("Name", "a b"), ("Empty", ""), ("Sort.Field", "CreateTime"), ("Sort.Order", "Asc"),
            ("CreateTime.After", "2026-01-31T12:00:00Z"),
        ]
        for var parameters in [try json(members), try fields(dotted)] {
            #expect(try parameters.texts("FileIds", atMost: 2) == ["1", "2"])
            #expect(try parameters.integers("ClassIds", atMost: 2) == [3, -4])
            #expect(try parameters.integer("Limit", in: 5...5) == 5)
            #expect(try parameters.integer("Offset", in: 0...6) == 6)
            #expect(try parameters.text("Name", atMost: 3) == "a b")
            #expect(parameters.has("Empty"))
            #expect(try parameters.text("Empty") == nil)
            var sort = try #require(try parameters.object("Sort"))
            #expect(try sort.text("Field") == "CreateTime")
            #expect(try code { try sort.finish() } == "UnknownParameter")
            #expect(try sort.text("Order") == "Asc")
            try sort.finish()
            var created = try #require(try parameters.object("CreateTime"))
            #expect(try created.time("After") == Date(timeIntervalSince1970: 1_769_860_800))
            try created.finish()
            try parameters.finish()
        }
    }

    @Test("a list of more than ten members keeps its order")
    func longList() throws {
        let all = (0..<25).map { ("Tags.\($0)", "t\($0)") }
        var parameters = try fields(all.reversed())
        #expect(try parameters.texts("Tags", atMost: 25) == all.map(\.1))
    }

    @Test(
        "fields that are repeated, contradict each other or are too deep are refused",
        arguments: [
            ["A", "A"], ["A.0", "A.0"], ["A", "A.0"], ["A.0", "A"], ["A.B.C", "A.B"], ["A.B", "A.B.C"],
            ["A.B.C.D.E"], ["A...."], [String(repeating: "A.", count: 30_000)],
        ]
    )
    func contradictions(names: [String]) throws {
        #expect(try code { _ = try fields(names.map { ($0, "x") }) } == "InvalidParameter")
    }

    @Test("fields of four parts are taken")
    func depth() throws {
        var parameters = try fields([("A.B.C.D", "x"), ("A.B.C.E", "y")])
        var first = try #require(try parameters.object("A"))
        var second = try #require(try first.object("B"))
        var third = try #require(try second.object("C"))
        #expect(try third.text("D") == "x")
        #expect(try code { try third.finish() } == "UnknownParameter")
        let failure = #expect(throws: VODError.self) { try third.integer("E", in: 0...1) }?.callFailure
        #expect(failure?.code == "InvalidParameterValue.A.B.C" && failure?.message.contains("`A.B.C.E`") == true)
    }

    @Test(
        "fields whose numbers have gaps, or are written otherwise, are no list",
        arguments: [
            ["A.0", "A.2"], ["A.1"], ["A.1", "A.2"], ["A.0", "A.x"], ["A.00", "A.1"], ["A.0", "A.00"], ["A.+0"],
            ["A.-1"], ["A.0", "A."], ["A."], ["A.0.0"], ["A.\u{660}"], ["A.99999999999999999999"],
        ]
    )
    func gaps(names: [String]) throws {
        var parameters = try fields(names.map { ($0, "1") })
        var copy = parameters
        #expect(try code { _ = try parameters.texts("A", atMost: 9) } == "InvalidParameterValue.A")
        #expect(try code { _ = try copy.integers("A", atMost: 9) } == "InvalidParameterValue.A")
    }

    @Test(
        "other content than an object without repeated names is refused",
        arguments: [
            "[]", "null", "1", #""x""#, "{", "{} {}", #"{"A":1,"A":2}"#, #"{"A":1,"\u0041":2}"#,
            #"{"A":{"B":1,"B":2}}"#, #"{"A":[{"B":1,"B":1}]}"#, "\u{feff}{", String(repeating: "[", count: 5000),
            #"{"A":"# + String(repeating: "[", count: 5000) + String(repeating: "]", count: 5000) + "}",
            #"{"A":[1"# + String(repeating: ",1", count: 20_000) + "]}",
            "{" + (0..<1001).map { #""A\#($0)":1"# }.joined(separator: ",") + "}",
        ]
    )
    func content(text: String) throws {
        #expect(try code { _ = try json(text) } == "InvalidParameter")
    }

    @Test("no content, or no field, has no parameters")
    func nothing() {
        #expect(throws: Never.self) { try json("").finish() }
        #expect(throws: Never.self) { try json("{}").finish() }
        #expect(throws: Never.self) { try fields([]).finish() }
    }

    @Test("an empty text and null count as missing")
    func missing() throws {
        var parameters = try json(#"{"A":null,"B":"","C":{"D":null},"E":[null]}"#)
        #expect(!parameters.has("A") && parameters.has("B"))
        #expect(try parameters.text("A") == nil)
        #expect(try parameters.text("B") == nil)
        #expect(try parameters.integer("A", in: 0...1) == nil)
        #expect(try parameters.texts("A", atMost: 1) == [])
        #expect(try parameters.integers("A", atMost: 1) == [])
        #expect(try parameters.time("A") == nil)
        #expect(try parameters.object("A") == nil)
        #expect(try parameters.object("C")?.finish() != nil)
        #expect(try code { _ = try parameters.texts("E", atMost: 1) } == "InvalidParameterValue.E")
        try parameters.finish()
    }

    @Test(
        "numbers may be texts, but whole ones within the limits",
        arguments: [
            ("5", 5), (#""5""#, 5), (#""-5""#, -5), (#""9""#, 9), ("10", nil), (#""10""#, nil), ("-10", nil),
            ("1.5", nil), (#""1.5""#, nil), (#""""#, nil), (#"" 5""#, nil), (#""0x5""#, nil), ("true", nil),
            ("[5]", nil), ("{}", nil), ("9223372036854775808", nil), (#""9223372036854775808""#, nil), ("1e99", nil),
        ] as [(String, Int64?)]
    )
    func numbers(text: String, number: Int64?) throws {
        var parameters = try json(#"{"A":\#(text)}"#)
        guard let number else {
            #expect(try code { _ = try parameters.integer("A", in: -9...9) } == "InvalidParameterValue.A")
            return
        }
        #expect(try parameters.integer("A", in: -9...9) == number)
    }

    @Test("limits of texts count Unicode scalars, and U+0000 is refused")
    func limits() throws {
        // One character, three scalars, eleven bytes.
        let family = "\u{1f468}\u{200d}\u{1f469}"
        for (text, limit, isTaken) in [
            (family, 3, true), (family, 2, false), ("e\u{301}", 2, true), ("e\u{301}", 1, false), ("abc", 3, true),
            ("abcd", 3, false), ("a\0", 9, false),
        ] {
            var parameters = try fields([("A", text), ("B.0", text)])
            if isTaken {
                #expect(try parameters.text("A", atMost: limit) == text)
                #expect(try parameters.texts("B", atMost: 1, of: limit) == [text])
            } else {
                let first = try code { _ = try parameters.text("A", atMost: limit) }
                let second = try code { _ = try parameters.texts("B", atMost: 1, of: limit) }
                #expect(first == "InvalidParameterValue.A" && second == "InvalidParameterValue.B")
            }
        }
    }

    @Test("lists are limited, and have members of one kind")
    func lists() throws {
        for text in [#"["1","2","3"]"#, #""1""#, "{}", #"[1]"#, #"[[]]"#, #"[""]"#, "[true]"] {
            var parameters = try json(#"{"A":\#(text)}"#)
            #expect(try code { _ = try parameters.texts("A", atMost: 2) } == "InvalidParameterValue.A", "\(text)")
        }
        for text in ["[1,2,3]", "1", "{}", #"["x"]"#, "[1.5]", "[[]]", #"[""]"#] {
            var parameters = try json(#"{"A":\#(text)}"#)
            #expect(try code { _ = try parameters.integers("A", atMost: 2) } == "InvalidParameterValue.A", "\(text)")
        }
    }

    @Test("each parameter is taken once, and what is left is unknown")
    func unknown() throws {
        var parameters = try json(#"{"B":1,"A":"x","C":{"D":1}}"#)
        #expect(try parameters.text("A") == "x")
        #expect(try parameters.text("A") == nil)
        let failure = #expect(throws: VODError.self) { try parameters.finish() }?.callFailure
        #expect(failure?.code == "UnknownParameter" && failure?.message.contains("`B`") == true)
        parameters.drop(["B"])
        let inner = try #require(try parameters.object("C"))
        let other = #expect(throws: VODError.self) { try inner.finish() }?.callFailure
        #expect(other?.message.contains("`C.D`") == true)
        try parameters.finish()
        // Names are compared with their case.
        var lower = try fields([("name", "x")])
        #expect(try lower.text("Name") == nil)
        #expect(try code { try lower.finish() } == "UnknownParameter")
    }
}
