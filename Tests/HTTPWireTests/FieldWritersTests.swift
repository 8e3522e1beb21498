import HTTPWire
import Testing

@Suite("Content-Disposition, Authorization, Forwarded and response heads", .timeLimit(.minutes(10)))
struct FieldWritersTests {
    @Test(
        "a file name is safe in Content-Disposition (RFC 6266, RFC 8187)",
        arguments: [
            ("report.pdf", "attachment; filename=\"report.pdf\""),
            ("a b.txt", "attachment; filename=\"a b.txt\""),
            ("Übung \"1\".mp4", "attachment; filename=\"_bung _1_.mp4\"; filename*=UTF-8''%C3%9Cbung%20%221%22.mp4"),
            ("100%.txt", "attachment; filename=\"100_.txt\"; filename*=UTF-8''100%25.txt"),
            ("../etc/passwd", "attachment; filename=\".._etc_passwd\""),
            ("..\\a", "attachment; filename=\".._a\""),
            ("a\r\nSet-Cookie: b", "attachment; filename=\"a__Set-Cookie: b\""),
            ("a\u{0}\u{7F}\u{85}b", "attachment; filename=\"a___b\""),
            ("x\u{202E}gpj.exe", "attachment; filename=\"x_gpj.exe\""),
            ("", "attachment; filename=\"download\""), ("..", "attachment; filename=\"download\""),
            (" ", "attachment; filename=\"download\""),
            ("日本", "attachment; filename=\"__\"; filename*=UTF-8''%E6%97%A5%E6%9C%AC"),
        ]
    )
    func writesDisposition(name: String, value: String) {
        #expect(ContentDisposition.attachment(fileName: name) == value)
    }

    @Test("a long file name is truncated")
    func cutsLongNames() {
        let value = ContentDisposition.inline(fileName: String(repeating: "a", count: 1000))
        #expect(value == "inline; filename=\"" + String(repeating: "a", count: 255) + "\"")
    }

    @Test(
        "a bearer token is extracted from Authorization (RFC 6750 §2.1)",
        arguments: [
            ("Bearer abc", "abc"), ("bearer abc", "abc"), ("BEARER  slk_a-b.c~d+e/f== ", "slk_a-b.c~d+e/f=="),
            ("Basic abc", nil), ("Bearer", nil), ("Bearer ", nil), ("Bearer a b", nil), ("Bearer a,b", nil),
            ("Bearer =", nil), ("Bearer a=b", nil), ("Bearer ä", nil), ("abc", nil), ("Bearer\tabc", nil),
        ] as [(String, String?)]
    )
    func extractsBearerToken(field: String, token: String?) {
        #expect(AuthorizationHeader(field)?.bearerToken == token)
    }

    @Test("scheme and credentials are separated")
    func takesSchemeApart() throws {
        let header = try #require(AuthorizationHeader("TC3-HMAC-SHA256 Credential=a/b, Signature=c"))
        #expect(header.scheme == "tc3-hmac-sha256")
        #expect(header.credentials == "Credential=a/b, Signature=c")
        #expect(AuthorizationHeader("") == nil)
        #expect(AuthorizationHeader("a,b c") == nil)
    }

    struct Proxied: Sendable {
        var fields: HTTPFields
        var scheme: String?
        var host: String?
        var client: String?
        var hidesClient = false
    }

    @Test(
        "a proxy's fields are parsed, and invalid values are ignored (RFC 7239)",
        arguments: [
            Proxied(fields: [:]),
            Proxied(
                fields: ["Forwarded": "for=192.0.2.1;proto=HTTPS;host=a.example:8443"],
                scheme: "https",
                host: "a.example:8443",
                client: "192.0.2.1"
            ),
            // Only what a trusted proxy appended counts.
            Proxied(fields: ["Forwarded": "For=\"[2001:DB8::1]:4711\", for=192.0.2.2"], client: "192.0.2.2"),
            Proxied(fields: ["Forwarded": "For=\"[2001:DB8::1]:4711\", for=10.0.0.2"], client: "2001:db8::1"),
            Proxied(
                fields: [
                    "Forwarded":
                        "for=192.0.2.9;host=evil, for=192.0.2.1;proto=https;host=a.example, for=\"[2001:db8::2]:80\";proto=http"
                ],
                scheme: "https",
                host: "a.example",
                client: "192.0.2.1"
            ),
            Proxied(
                fields: ["Forwarded": "host=evil, for=unknown;proto=https, for=10.1.1.1"],
                scheme: "https",
                hidesClient: true
            ),
            // What a client left open ends with its element, in each line, and nothing before counts.
            Proxied(
                fields: ["Forwarded": "for=192.0.2.9;x=\", for=192.0.2.1;proto=https"],
                scheme: "https",
                client: "192.0.2.1"
            ),
            Proxied(fields: ["Forwarded": "for=\", for=\"[2001:db8::9]:80\""], client: "2001:db8::9"),
            Proxied(fields: ["Forwarded": "for=192.0.2.9;x=\"\\\", for=192.0.2.1"], client: "192.0.2.1"),
            Proxied(fields: ["Forwarded": "for=192.0.2.9, x=\", for=192.0.2.1, for=10.0.0.1"], client: "192.0.2.1"),
            Proxied(fields: ["Forwarded": "for=192.0.2.9, x=\"a, for=10.0.0.1"], client: "10.0.0.1"),
            Proxied(
                fields: ["Forwarded": "for=192.0.2.1;host=\"a, for=192.0.2.9\";proto=https"],
                scheme: "https",
                client: "192.0.2.1"
            ),
            Proxied(fields: ["Forwarded": "for=192.0.2.1;x=\"a\\\", for=192.0.2.9;y=\\\\\""], client: "192.0.2.1"),
            Proxied(fields: ["Forwarded": "for=192.0.2.9, for=192.0.2.1\""], hidesClient: true),
            Proxied(fields: ["Forwarded": "for=\""], hidesClient: true),
            Proxied(fields: ["Forwarded": "for=192.0.2.1,, "], client: "192.0.2.1"),
            Proxied(fields: ["Forwarded": ""], hidesClient: true),
            Proxied(fields: ["Forwarded": "for=10.0.0.1, for=10.0.0.2;proto=http"], client: "10.0.0.1"),
            Proxied(fields: ["Forwarded": "for=\"192.0.2.1:80\";proto=http"], scheme: "http", client: "192.0.2.1"),
            Proxied(fields: ["Forwarded": "for=unknown;proto=ftp;host=\"a b\""], hidesClient: true),
            Proxied(fields: ["Forwarded": "for=_hidden"], hidesClient: true),
            Proxied(fields: ["Forwarded": "for=300.0.0.1"], hidesClient: true),
            Proxied(
                fields: ["Forwarded": "proto=http", "X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.1"],
                scheme: "http",
                hidesClient: true
            ),
            Proxied(fields: ["Forwarded": "nonsense"], hidesClient: true),
            Proxied(
                fields: [
                    "X-Forwarded-Proto": "https, http", "X-Forwarded-Host": "a.example, b",
                    "X-Forwarded-For": "::1, 10.0.0.1",
                ],
                scheme: "https",
                host: "a.example",
                client: "::1"
            ),
            Proxied(
                fields: [
                    "X-Forwarded-Proto": "https", "X-Forwarded-Host": "evil, a.example",
                    "X-Forwarded-For": "127.0.0.1, 192.0.2.1",
                ],
                scheme: "https",
                host: "a.example",
                client: "192.0.2.1"
            ),
            Proxied(fields: ["X-Forwarded-Host": "evil, a.example"], host: "a.example"),
            Proxied(fields: ["X-Forwarded-For": "192.0.2.7, 192.0.2.1, 10.0.0.3, 10.0.0.4"], client: "192.0.2.1"),
            Proxied(fields: ["X-Forwarded-For": "192.0.2.1:1234"], client: "192.0.2.1"),
            Proxied(fields: ["X-Forwarded-For": "::ffff:192.0.2.1"], client: "::ffff:192.0.2.1"),
            Proxied(fields: ["X-Forwarded-For": "1:2:3:4:5:6:7:8"], client: "1:2:3:4:5:6:7:8"),
            Proxied(fields: ["X-Forwarded-For": "1:2:3:4:5:6:7:8:9"], hidesClient: true),
            Proxied(fields: ["X-Forwarded-For": "1:2:3"], hidesClient: true),
            Proxied(fields: ["X-Forwarded-For": "1::2::3"], hidesClient: true),
            Proxied(fields: ["X-Forwarded-For": ":1::2"], hidesClient: true),
            Proxied(fields: ["X-Forwarded-For": "12345::"], hidesClient: true),
            Proxied(fields: ["X-Forwarded-For": "[::1]x"], hidesClient: true),
            Proxied(fields: ["X-Forwarded-For": "192.0.2.1:"], hidesClient: true),
            Proxied(fields: ["X-Forwarded-For": "192.0.2"], hidesClient: true),
            // RFC 3986 §3.2.2: no leading zeros, which some parsers read as octal.
            Proxied(fields: ["X-Forwarded-For": "010.0.0.1"], hidesClient: true),
            Proxied(fields: ["X-Forwarded-For": "10.0.0.01"], hidesClient: true),
            Proxied(fields: ["X-Forwarded-For": "::ffff:095.0.2.0"], hidesClient: true),
            Proxied(fields: ["X-Forwarded-For": "10.0.0.0"], client: "10.0.0.0"),
            Proxied(fields: ["X-Forwarded-For": ""], hidesClient: true),
            Proxied(
                fields: ["X-Forwarded-Host": "a/b", "X-Forwarded-Proto": "javascript", "X-Forwarded-For": "<script>"],
                hidesClient: true
            ),
        ]
    )
    func readsProxyFields(example: Proxied) {
        let forwarded = ForwardedHeaders(example.fields) { $0.hasPrefix("10.") || $0 == "2001:db8::2" }
        #expect(forwarded.scheme == example.scheme)
        #expect(forwarded.host == example.host)
        #expect(forwarded.client == example.client)
        #expect(forwarded.hidesClient == example.hidesClient)
    }

    @Test("of several fields, the last one is of the last proxy, whatever a client left open in the first")
    func linesOfProxies() {
        var fields: HTTPFields = ["Forwarded": "for=192.0.2.9;x=\""]
        fields.append("Forwarded", "for=\"192.0.2.1:80\";proto=https")
        fields.append("Forwarded", "for=10.0.0.1")
        let forwarded = ForwardedHeaders(fields) { $0.hasPrefix("10.") }
        #expect(forwarded.client == "192.0.2.1" && forwarded.scheme == "https" && !forwarded.hidesClient)
    }

    @Test("a response head is a status line, the fields and an empty line (RFC 9112 §4)")
    func writesResponseHead() {
        let head = ResponseHead(201, ["Location": "/files/1", "Content-Length": "0"])
        let expected = "HTTP/1.1 201 Created\r\nLocation: /files/1\r\nContent-Length: 0\r\n\r\n"
        #expect(String(decoding: ResponseHeadWriter.bytes(head), as: UTF8.self) == expected)
        #expect(
            String(decoding: ResponseHeadWriter.bytes(ResponseHead(100)), as: UTF8.self)
                == "HTTP/1.1 100 Continue\r\n\r\n"
        )
    }

    @Test("heads are appended one after the other")
    func appendsHeads() {
        var output: [UInt8] = []
        ResponseHeadWriter.write(ResponseHead(104), into: &output)
        ResponseHeadWriter.write(ResponseHead(204, ["A": "b"]), into: &output)
        #expect(
            String(decoding: output, as: UTF8.self)
                == "HTTP/1.1 104 Upload Resumption Supported\r\n\r\nHTTP/1.1 204 No Content\r\nA: b\r\n\r\n"
        )
    }

    @Test("a value cannot end its line")
    func valueCannotEndItsLine() {
        let bytes = ResponseHeadWriter.bytes(ResponseHead(200, ["X": "a\r\nSet-Cookie: b\u{0}"]))
        #expect(String(decoding: bytes, as: UTF8.self) == "HTTP/1.1 200 OK\r\nX: a  Set-Cookie: b \r\n\r\n")
    }
}
