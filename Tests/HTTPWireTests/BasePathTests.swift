import Testing

@testable import HTTPWire

@Suite("base path", .timeLimit(.minutes(10)))
struct BasePathTests {
    @Test(
        "it has segments of unreserved characters",
        arguments: [
            ("/uploads", "/uploads"), ("/uploads/", "/uploads"), ("/a/b-1._~/C", "/a/b-1._~/C"), ("/a//", "/a"),
            ("", nil), ("/", nil), ("//", nil), ("uploads", nil), ("/a//b", nil), ("//a", nil), ("/.", nil),
            ("/a/../b", nil), ("/a b", nil), ("/%61", nil), ("/a?b", nil), ("/a#b", nil), ("/a;b", nil), ("/ü", nil),
            ("/a\r\nb", nil),
            ("https://app.example/a", nil),
        ] as [(String, String?)]
    )
    func texts(text: String, path: String?) {
        #expect(BasePath(text)?.description == path)
    }

    @Test(
        "the rest of a path below it is what follows",
        arguments: [
            ("/a/b/files", "/files"), ("/a/b/files/x.y?c=/d", "/files/x.y?c=/d"), ("/a/b", "/"), ("/a/b/", "/"),
            ("/a/b?c", "/?c"), ("/a/b//files", "//files"), ("/a/b/x%2Fy/", "/x%2Fy/"), ("/a/b/a/b", "/a/b"),
            ("/a/b/..", "/.."), ("/%61/b/%66iles", "/%66iles"), ("http://h:1/a/b/files", "http://h:1/files"),
        ]
    )
    func inside(target: String, expected: String) throws {
        let path = try #require(BasePath("/a/b"))
        let rest = try #require(path.relative(RequestTarget(parsing: target)))
        #expect(try rest == RequestTarget(parsing: expected))
    }

    @Test(
        "nothing else is below it",
        arguments: [
            "/", "/a", "/a/", "/files", "/a/bc", "/a/b;x/files", "/A/b/files", "//a/b/files", "/a//b/files",
            "/a%2Fb/files", "/a/b%2Ffiles", "/%2Fa/b/files", "/x/../a/b/files", "/./a/b/files", "/a/./b/files",
            "/a/%2e/b/files",
            "/%2561/b/files", "/a/b%20", "http://a/b/files", "http://a", "/a/b%5Cfiles",
        ]
    )
    func outside(target: String) throws {
        let path = try #require(BasePath("/a/b"))
        #expect(try path.relative(RequestTarget(parsing: target)) == nil)
    }

    @Test("a request for the whole server has no path")
    func asterisk() throws {
        let path = try #require(BasePath("/a"))
        let target = try RequestTarget(parsing: "*", method: .options)
        #expect(path.relative(target) == target)
    }
}
