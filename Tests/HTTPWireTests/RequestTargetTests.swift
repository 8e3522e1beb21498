import HTTPWire
import Testing

@Suite("Request targets and queries", .timeLimit(.minutes(10)))
struct RequestTargetTests {
    struct Example: Sendable {
        var target: String
        var rawPath: String
        var rawQuery: String?
        var authority: String?
        var segments: [String]
        var method = HTTPMethod.get
    }

    @Test(
        "a target is decoded exactly once",
        arguments: [
            Example(target: "/", rawPath: "/", segments: [""]),
            Example(target: "/a", rawPath: "/a", segments: ["a"]),
            Example(target: "/a/b/", rawPath: "/a/b/", segments: ["a", "b", ""]),
            Example(target: "//a", rawPath: "//a", segments: ["", "a"]),
            Example(target: "/a%2Fb/c", rawPath: "/a%2Fb/c", segments: ["a/b", "c"]),
            Example(target: "/%252F", rawPath: "/%252F", segments: ["%2F"]),
            Example(target: "/a+b", rawPath: "/a+b", segments: ["a+b"]),
            Example(target: "/%C3%BC%e2%82%ac", rawPath: "/%C3%BC%e2%82%ac", segments: ["ü€"]),
            Example(target: "/../%2e%2E/.", rawPath: "/../%2e%2E/.", segments: ["..", "..", "."]),
            Example(target: "/a?", rawPath: "/a", rawQuery: "", segments: ["a"]),
            Example(target: "/a?b=c?d/e", rawPath: "/a", rawQuery: "b=c?d/e", segments: ["a"]),
            Example(target: "/?%zz", rawPath: "/", rawQuery: "%zz", segments: [""]),
            Example(target: "*", rawPath: "*", segments: [], method: .options),
            Example(target: "http://h", rawPath: "/", authority: "h", segments: [""]),
            Example(target: "HTTPS://h:1/p?q", rawPath: "/p", rawQuery: "q", authority: "h:1", segments: ["p"]),
            Example(target: "http://[::1]:1?q", rawPath: "/", rawQuery: "q", authority: "[::1]:1", segments: [""]),
            Example(target: "http://h?a/b", rawPath: "/", rawQuery: "a/b", authority: "h", segments: [""]),
        ]
    )
    func decodes(example: Example) throws {
        let target = try RequestTarget(parsing: example.target, method: example.method)
        let expected = RequestTarget(
            rawPath: example.rawPath,
            rawQuery: example.rawQuery,
            authority: example.authority,
            segments: example.segments
        )
        #expect(target == expected)
    }

    @Test(
        "a target that cannot be parsed is refused with 400",
        arguments: ["", "a", "/ ", "/\u{0}", "/%", "?a", "http:/a"]
    )
    func refuses(text: String) throws {
        let failure = #expect(throws: HeadFailure.self) { try RequestTarget(parsing: text) }
        #expect(try #require(failure).status == 400)
    }

    @Test("query items are decoded as form data, in order")
    func queryItems() throws {
        let query = try RequestTarget(parsing: "/?a=1&b=x+y%2B&a=%C3%BC&flag&=v&&e=").queryItems()
        #expect(query.items.map(\.name) == ["a", "b", "a", "flag", "", "e"])
        #expect(query.items.map(\.value) == ["1", "x y+", "ü", "", "v", ""])
        #expect(query.count == 6)
        #expect(query.first("a") == "1")
        #expect(query.all("a") == ["1", "ü"])
        #expect(query.first("flag") == "")
        #expect(query.first("A") == nil)
        #expect(query.all("c") == [])
    }

    @Test("only the first = separates name and value")
    func firstEqualsSeparates() throws {
        #expect(try QueryItems("a=b=c").first("a") == "b=c")
        #expect(try QueryItems("a%3Db=c").first("a=b") == "c")
    }

    @Test("no query has no items")
    func emptyQuery() throws {
        #expect(try QueryItems(nil).isEmpty)
        #expect(try QueryItems("").isEmpty)
        #expect(try QueryItems("&&").isEmpty)
    }

    @Test("a malformed query is refused", arguments: ["a=%", "%4=b", "a=%zz", "a=%FF", "%C3=%BC", "a=%00", "a=1&b=%1"])
    func refusesMalformedQuery(text: String) {
        #expect(throws: QueryItems.Failure.self) { try QueryItems(text) }
    }

    @Test("percent-encoding keeps what is allowed and writes upper case")
    func encodes() {
        #expect(PercentEncoding.encode("aZ0-._~ /ü+%") == "aZ0-._~%20%2F%C3%BC%2B%25")
        #expect(PercentEncoding.encode("a:b@c/d", allowing: PercentEncoding.isPathCharacter) == "a:b@c%2Fd")
        #expect(
            PercentEncoding.encode("a'b*c%d!e", allowing: PercentEncoding.isAttributeCharacter) == "a%27b%2Ac%25d!e"
        )
    }

    @Test("every byte survives encoding and decoding")
    func roundTrip() throws {
        let text = String(String.UnicodeScalarView((0...0x7FF).compactMap(Unicode.Scalar.init)))
        let encoded = PercentEncoding.encode(text)
        #expect(encoded.utf8.allSatisfy { PercentEncoding.isUnreserved($0) || $0 == UInt8(ascii: "%") })
        #expect(try #require(PercentEncoding.decode(encoded.utf8)) == Array(text.utf8))
    }
}
