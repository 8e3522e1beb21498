import Bytes
import HTTPWire
import Testing

/// A combining mark and the delimiter before it form one `Character`, but the syntax is defined on bytes.
@Suite("Delimiters before combining marks", .timeLimit(.minutes(10)))
struct CombiningMarksTests {
    private static let mark = "\u{301}"

    @Test("a quote in a parameter cannot end its quoted string (RFC 9110 §5.6.4)", arguments: ["\"", "\\"])
    func parameterIsEscaped(delimiter: String) throws {
        let type = try #require(MediaType("a/b; c=\"\\\(delimiter)\(Self.mark); d=e\""))
        #expect(type.parameter("c") == "\(delimiter)\(Self.mark); d=e")
        #expect(Array(type.description.utf8) == Array("a/b; c=\"\\\(delimiter)\(Self.mark); d=e\"".utf8))
        #expect(MediaType(type.description) == type)
    }

    @Test("the backslashes of a quoted string do not hide how many marks follow each other")
    func hiddenMarks() throws {
        func quoted(_ marks: Int) -> String { String(repeating: Self.mark + "\\", count: marks) + Self.mark }
        #expect(MediaType("a/b; c=\"\(quoted(ClientText.maximumMarks))\"") == nil)
        #expect(MediaType("a/b; c=\"\(quoted(ClientText.maximumMarks - 1))\"") != nil)
    }

    @Test("white space is trimmed (RFC 9110 §5.6.3)")
    func whiteSpaceIsTrimmed() {
        #expect(Array(" \t \(Self.mark)a \t".trimmingWhitespace().utf8) == Array("\(Self.mark)a".utf8))
        #expect(Array("\(Self.mark) a b\t".trimmingWhitespace().utf8) == Array("\(Self.mark) a b".utf8))
        #expect(" \t ".trimmingWhitespace().isEmpty)
    }

    @Test("a comma separates elements (RFC 9110 §5.6.1)")
    func commaSeparates() {
        let fields: HTTPFields = ["Connection": "close,\(Self.mark)x"]
        #expect(fields.list("Connection") == ["close", "\(Self.mark)x"])
    }

    @Test("a quote begins and ends an entity tag (RFC 9110 §8.8.3)")
    func quoteEndsATag() throws {
        let tag = try #require(EntityTag("\"\(Self.mark),x\""))
        for list in ["\"\(Self.mark),x\"", "\"y\", \"\(Self.mark),x\"", "\"\(Self.mark)\", \"\(Self.mark),x\""] {
            #expect(EntityTagConditions.evaluate(["If-Match": list], method: .put, tag: tag) == .proceed)
        }
    }
}
