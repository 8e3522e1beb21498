import HTTPWire
import Testing

@Suite("Media types and Accept", .timeLimit(.minutes(10)))
struct MediaTypeTests {
    @Test("type, subtype and parameters are parsed (RFC 9110 §8.3.1)")
    func parses() throws {
        let type = try #require(MediaType("Text/HTML; Charset=\"utf-8\" ;x=\"a;b\\\"c\""))
        #expect(type.essence == "text/html")
        #expect(type.parameter("charset") == "utf-8")
        #expect(type.parameter("CHARSET") == "utf-8")
        #expect(type.parameter("x") == "a;b\"c")
        #expect(type.parameter("y") == nil)
        #expect(type.description == "text/html; charset=utf-8; x=\"a;b\\\"c\"")
        #expect(try #require(MediaType("a/b+c;")).essence == "a/b+c")
    }

    @Test(
        "a malformed media type is refused",
        arguments: [
            "", "text", "text/", "/html", "a/b/c", "a b/c", ";a=b", "a/b; c", "a/b; =c", "a/b; c=\"d", "a/b; c=d e",
            "ä/b",
        ]
    )
    func refuses(text: String) {
        #expect(MediaType(text) == nil)
    }

    @Test(
        "the type with the highest weight is selected (RFC 9110 §12.5.1)",
        arguments: [
            (nil, "application/json"), ("", "application/json"), ("*/*", "application/json"),
            ("text/plain", "text/plain"), ("TEXT/PLAIN", "text/plain"), ("text/*", "text/plain"),
            ("application/json, text/plain", "application/json"), ("text/plain, application/json;q=0.9", "text/plain"),
            ("text/plain;q=0.5, application/json;q=0.9", "application/json"),
            ("text/*;q=0.9, */*;q=0.1", "text/plain"), ("*/*, text/plain;q=0", "application/json"),
            ("application/json;q=0, */*;q=0.1", "text/plain"), ("image/png", nil), ("application/json;q=0", nil),
            ("application/json;q=0.001", "application/json"), ("text/plain;q=1.000", "text/plain"),
            ("text/plain;q=2, application/json;q=0.1", "application/json"), ("x", "application/json"),
            ("text/plain;q=abc, application/json;q=0.2", "application/json"), ("text/plain;q=0.5;ext=1", "text/plain"),
            ("a/b;c=\"text/plain, d\", application/json;q=0.1", "application/json"), ("*/plain", nil),
        ] as [(String?, String?)]
    )
    func negotiates(field: String?, chosen: String?) {
        #expect(AcceptHeader(field).best(of: ["application/json", "text/plain"]) == chosen)
    }

    @Test("the most specific range decides, with the example of RFC 9110 §12.5.1")
    func mostSpecificRangeDecides() {
        let accept = AcceptHeader(
            "text/*;q=0.3, text/plain;q=0.7, text/plain;format=flowed, text/plain;format=fixed;q=0.4, */*;q=0.5"
        )
        #expect(accept.quality(of: "text/plain;format=flowed") == 1000)
        #expect(accept.quality(of: "text/plain") == 700)
        #expect(accept.quality(of: "text/html") == 300)
        #expect(accept.quality(of: "image/jpeg") == 500)
        #expect(accept.quality(of: "text/plain;format=fixed") == 400)
        #expect(accept.quality(of: "text/html;level=3") == 300)
        #expect(accept.prefers("text/plain", over: "text/html"))
        #expect(!accept.prefers("text/html", over: "text/html"))
        #expect(!accept.prefers("text/html", over: "image/jpeg"))
    }
}
