import HTTPWire
import Testing

@Suite("Conditional requests", .timeLimit(.minutes(10)))
struct EntityTagConditionsTests {
    /// Sun, 06 Nov 1994 08:49:37 GMT.
    private static let modified: Int64 = 784_111_777
    private static let date = "Sun, 06 Nov 1994 08:49:37 GMT"
    private static let earlier = "Sun, 06 Nov 1994 08:49:36 GMT"
    private static let later = "Sun, 06 Nov 1994 08:49:38 GMT"

    struct Example: Sendable {
        var fields: HTTPFields
        var method = HTTPMethod.get
        var outcome: EntityTagConditions.Outcome
    }

    @Test(
        "conditions are evaluated against the tag \"a\" and a date (RFC 9110 §13.1, §13.2.2)",
        arguments: [
            Example(fields: [:], outcome: .proceed),
            Example(fields: ["If-Match": "\"a\""], outcome: .proceed),
            Example(fields: ["If-Match": "\"b\", \"a\""], outcome: .proceed),
            Example(fields: ["If-Match": "*"], outcome: .proceed),
            Example(fields: ["If-Match": "\"b\""], outcome: .preconditionFailed),
            Example(fields: ["If-Match": "W/\"a\""], outcome: .preconditionFailed),
            Example(fields: ["If-Match": "a"], outcome: .preconditionFailed),
            Example(fields: ["If-Match": ""], outcome: .preconditionFailed),
            Example(fields: ["If-Match": "\"b,a\""], outcome: .preconditionFailed),
            Example(fields: ["If-Match": "\"b\"", "If-Match": "\"a\""], outcome: .proceed),
            Example(fields: ["If-None-Match": "\"a\""], outcome: .notModified),
            Example(fields: ["If-None-Match": "W/\"a\""], outcome: .notModified),
            Example(fields: ["If-None-Match": "\"x,y\", \"a\""], outcome: .notModified),
            Example(fields: ["If-None-Match": "*"], outcome: .notModified),
            Example(fields: ["If-None-Match": "\"a\""], method: .head, outcome: .notModified),
            Example(fields: ["If-None-Match": "\"a\""], method: .put, outcome: .preconditionFailed),
            Example(fields: ["If-None-Match": "*"], method: .put, outcome: .preconditionFailed),
            Example(fields: ["If-None-Match": "\"b\""], outcome: .proceed),
            Example(fields: ["If-None-Match": "a"], outcome: .proceed),
            Example(fields: ["If-Modified-Since": date], outcome: .notModified),
            Example(fields: ["If-Modified-Since": later], outcome: .notModified),
            Example(fields: ["If-Modified-Since": earlier], outcome: .proceed),
            Example(fields: ["If-Modified-Since": date], method: .post, outcome: .proceed),
            Example(fields: ["If-Modified-Since": "yesterday"], outcome: .proceed),
            Example(fields: ["If-Unmodified-Since": date], outcome: .proceed),
            Example(fields: ["If-Unmodified-Since": earlier], outcome: .preconditionFailed),
            Example(fields: ["If-Unmodified-Since": earlier], method: .delete, outcome: .preconditionFailed),
            Example(fields: ["If-Unmodified-Since": "yesterday"], outcome: .proceed),
            // Tag conditions take precedence over date conditions.
            Example(fields: ["If-Match": "\"a\"", "If-Unmodified-Since": earlier], outcome: .proceed),
            Example(fields: ["If-None-Match": "\"b\"", "If-Modified-Since": date], outcome: .proceed),
            // If-Match is evaluated before If-None-Match.
            Example(fields: ["If-None-Match": "\"a\"", "If-Match": "\"b\""], outcome: .preconditionFailed),
            Example(fields: ["If-None-Match": "\"a\"", "If-Match": "\"a\""], outcome: .notModified),
        ]
    )
    func evaluates(example: Example) {
        let outcome = EntityTagConditions.evaluate(
            example.fields,
            method: example.method,
            tag: EntityTag(strong: "a"),
            lastModified: Self.modified
        )
        #expect(
            outcome == example.outcome,
            "\(example.method) \(String(decoding: ResponseHeadWriter.bytes(ResponseHead(200, example.fields)), as: UTF8.self))"
        )
    }

    @Test("without a representation If-Match fails and If-None-Match holds")
    func withoutRepresentation() {
        let evaluate = { (fields: HTTPFields) in
            EntityTagConditions.evaluate(fields, method: .put, tag: nil, exists: false)
        }
        #expect(evaluate(["If-Match": "*"]) == .preconditionFailed)
        #expect(evaluate(["If-Match": "\"a\""]) == .preconditionFailed)
        #expect(evaluate(["If-None-Match": "*"]) == .proceed)
        #expect(evaluate(["If-None-Match": "\"a\""]) == .proceed)
    }

    @Test(
        "If-Range needs the same strong tag or exactly the date (RFC 9110 §13.1.5)",
        arguments: [
            ([:], true), (["If-Range": "\"a\""], true), (["If-Range": "\"b\""], false),
            (["If-Range": "W/\"a\""], false),
            (["If-Range": date], true), (["If-Range": later], false), (["If-Range": "a"], false),
        ] as [(HTTPFields, Bool)]
    )
    func ifRange(fields: HTTPFields, honours: Bool) {
        let tag = EntityTag(strong: "a")
        #expect(EntityTagConditions.honoursRange(fields, tag: tag, lastModified: Self.modified) == honours)
    }

    @Test("tags are parsed and written (RFC 9110 §8.8.3)")
    func tags() throws {
        let strong = try #require(EntityTag("\"x\\y,z\""))
        #expect(strong.opaque == "x\\y,z")
        #expect(!strong.isWeak)
        #expect(strong.description == "\"x\\y,z\"")
        let weak = try #require(EntityTag("W/\"\""))
        #expect(weak.isWeak)
        #expect(weak.description == "W/\"\"")
        for text in ["", "\"", "x", "\"a", "a\"", "w/\"a\"", "\"a\"b\"", "\"a b\"", "\"a\" ", "\"\u{7F}\""] {
            #expect(EntityTag(text) == nil, "\(text)")
        }
        #expect(EntityTag(strong: "a\"b") == nil)
        #expect(EntityTag(strong: "a\r\nb") == nil)
    }

    @Test("strong and weak comparison differ (RFC 9110 §8.8.3.2)")
    func comparison() throws {
        let strong = try #require(EntityTag("\"1\""))
        let weak = try #require(EntityTag("W/\"1\""))
        #expect(strong.matchesStrongly(strong) && strong.matchesWeakly(strong))
        #expect(!weak.matchesStrongly(weak) && weak.matchesWeakly(weak))
        #expect(!strong.matchesStrongly(weak) && strong.matchesWeakly(weak))
        #expect(try !strong.matchesWeakly(#require(EntityTag("\"2\""))))
    }
}
