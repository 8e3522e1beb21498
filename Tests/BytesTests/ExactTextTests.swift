import Testing

@testable import Bytes

@Suite("Texts that are compared by their bytes", .timeLimit(.minutes(10)))
struct ExactTextTests {
    /// A `String` finds each pair equal.
    private static let pairs = [
        ("K", "\u{212A}"), (";", "\u{37E}"), ("`", "\u{1FEF}"), ("\u{E9}", "e\u{301}"), ("\u{C5}", "\u{212B}"),
        ("a\u{323}\u{307}", "a\u{307}\u{323}"),
    ]

    @Test("canonically equivalent texts are two", arguments: pairs)
    func texts(one: String, other: String) {
        #expect(one == other)
        #expect(ExactText(one) != ExactText(other) && ExactText(one) == ExactText(one))
        #expect(Set([ExactText(one), ExactText(other), ExactText(one)]).count == 2)
        #expect(!one.isExactly(other) && other.isExactly(other))
        var names: ExactNames = [one: 1]
        names[other] = 2
        #expect(names.count == 2 && names[one] == 1 && names[other] == 2)
        #expect(names.removeValue(forKey: one) == 1 && names[one] == nil && names[other] == 2)
        #expect(names != [one: 2] && names == [other: 2])
        #expect(ExactNames(uniqueKeysWithValues: [(one, 1), (other, 2)]).filter { $0.value == 2 } == [other: 2])
        #expect(names.merging([one: 1, other: 3]) { $0 + $1 } == [one: 1, other: 5])
        #expect(names.dictionary == [one: 2])
    }

    @Test("members and strings of JSON are compared by their bytes", arguments: pairs)
    func json(one: String, other: String) throws {
        let json = Array(#"{"\#(one)":1,"\#(other)":2,"a":"\#(one)"}"#.utf8)
        let members = try #require(JSONValue(json: json)?.members)
        #expect(members[one] == .integer(1) && members[other] == .integer(2) && members.count == 3)
        #expect(members["a"] == .string(one) && members["a"] != .string(other))
        #expect(JSONValue.array([.string(one)]) != .array([.string(other)]))
        #expect(JSONNames.repeated(in: json) == [])
        #expect(JSONNames.repeated(in: Array(#"{"\#(one)":1,"\#(one)":2}"#.utf8)) == [one])
    }

    @Test("only letters of ASCII change their case")
    func cases() {
        #expect("AZaz09@[`{ÄÉ\u{212A}İ".lowercasedASCII() == "azaz09@[`{ÄÉ\u{212A}İ")
        #expect("AZaz09@[`{äéſßı".uppercasedASCII() == "AZAZ09@[`{äéſßı")
        #expect("bucKet".lowercasedASCII() == "bucket" && "buc\u{212A}et".lowercasedASCII() != "bucket")
        #expect("POſT".uppercasedASCII() != "POST" && "".lowercasedASCII().isEmpty)
    }

    @Test("a terminal obeys nothing in a text from elsewhere")
    func terminal() {
        let text = "a\u{1B}[2J\u{9B}1m\r\u{7F}\u{202E}\u{2028}\u{E0001} é\u{301}\t\n日"
        let shown = #"a\u001b[2J\u009b1m\u000d\u007f\u202e\u2028\udb40\udc01"#
        #expect(TerminalText.escaped(text).isExactly(shown + " é\u{301}" + #"\u0009\u000a日"#))
        #expect(TerminalText.lines(text).isExactly(shown + " é\u{301}" + "\\u0009\n日"))
        #expect(TerminalText.lines("a\r\nb\n\n").isExactly("a\\u000d\nb\n\n"))
        for text in ["a", "é/日:1", "-"] { #expect(TerminalText.quoted(text).isExactly(text)) }
        for (text, quoted) in [
            ("", "\"\""), ("a b", "\"a b\""), ("a=1", "\"a=1\""), ("a\"b", #""a\"b""#), (#"a\b"#, #""a\\b""#),
            ("a\nb", #""a\u000ab""#), (#"\"# + "\u{1B}", #""\\\u001b""#),
        ] {
            #expect(TerminalText.quoted(text) == quoted)
            #expect(JSONValue(json: Array(quoted.utf8)) == .string(text))
        }
        // In JSON it means the same.
        let bad = "\u{9B}\u{E0001}"
        #expect(JSONValue(json: Array("\"\(TerminalText.escaped(bad))\"".utf8)) == .string(bad))
    }
}
