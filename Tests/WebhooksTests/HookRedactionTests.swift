import Testing

@testable import Webhooks

@Suite("What hooks do not learn", .timeLimit(.minutes(10)))
struct HookRedactionTests {
    @Test(
        "the code of a link is left out",
        arguments: [
            ("1234567890123456-7.AAAAAAAAAAAAAAAAAAAAAA", "1234567890123456-7"),
            ("01jd3v0m5xq4n8e2r7t9w6y1zk.abcDEF0123-_abcDEF0123", "01jd3v0m5xq4n8e2r7t9w6y1zk"),
            ("a.b.AAAAAAAAAAAAAAAAAAAAA-", "a.b"), (".AAAAAAAAAAAAAAAAAAAAAA", ""), ("film.mp4", nil), ("", nil),
            ("a.AAAAAAAAAAAAAAAAAAAAA", nil), ("a.AAAAAAAAAAAAAAAAAAAAAAA", nil), ("a.AAAAAAAAAAAAAAAAAAAAA=", nil),
            ("AAAAAAAAAAAAAAAAAAAAAA", nil), ("a-AAAAAAAAAAAAAAAAAAAAAA", nil),
        ] as [(String, String?)]
    )
    func codes(_ segment: String, _ rest: String?) {
        #expect(HookRedaction.withoutCode(segment) == rest)
    }

    @Test(
        "signatures and tokens in a query have no value",
        arguments: [
            ("video_file_id=7&upgrade=true&signature=abc", "video_file_id=7&upgrade=true&signature="),
            (
                "X-Amz-Signature=0&X-Amz-Date=1&x-amz-security-token=2",
                "X-Amz-Signature=&X-Amz-Date=1&x-amz-security-token="
            ),
            (
                "Action=UploadMediaByURL&Signature=a%3D&SecurityToken=b",
                "Action=UploadMediaByURL&Signature=&SecurityToken="
            ),
            ("q-signature=a&q-ak=b&sign=c", "q-signature=&q-ak=b&sign="), ("x-oss-signature=a&a", "x-oss-signature=&a"),
            ("access_token=a&token=b=c&code=d&%74oken=e", "access_token=&token=&code=&%74oken="),
            ("a=1&&b=", "a=1&&b="), ("", ""), ("partNumber=1&uploadId=x", "partNumber=1&uploadId=x"),
            ("codec=h264&design=1", "codec=h264&design=1"),
        ]
    )
    func queries(_ query: String, _ redacted: String) {
        #expect(HookRedaction.query(query) == redacted)
    }

    private static let id = "01jd3v0m5xq4n8e2r7t9w6y1zk"
    private static let code = "abcDEF0123-_abcDEF0123"
    private static let link = id + "." + code

    @Test(
        "in whatever field and form a credential comes, it is left out",
        arguments: [
            ("/files/\(link)", "/files/\(id)"), ("https://a.example/files/\(link)/", "https://a.example/files/\(id)/"),
            (link, id), ("x~\(link)", "x~\(id)"), ("\(link);x, \(link).", "\(id);x, \(id)."),
            ("/files/\(link)#f", "/files/\(id)#f"), ("/files/\(link)%20", "/files/\(id)%20"),
            ("/files/\(link)-thumb", "/files/\(id)"), ("a\\\(link)", "a\\\(id)"),
            (
                "/p?upload=https%3A%2F%2Fa.example%2Ffiles%2F\(link)",
                "/p?upload=https%3A%2F%2Fa.example%2Ffiles%2F\(id)"
            ),
            ("/p?a=%252Ffiles%252F\(link)&b=1", "/p?a=%252Ffiles%252F\(id)&b=1"),
            ("/p?a=\(id)%2E\(code)", "/p?a=\(id)"),
            (
                "/p?u=https%3A%2F%2Fa.example%2Fb%3FX-Amz-Signature%3D0%26c%3D1",
                "/p?u=https%3A%2F%2Fa.example%2Fb%3FX-Amz-Signature%3D%26c%3D1"
            ),
            ("/vimeo/files/12345-7.\(code);x", "/vimeo/files/12345-7;x"),
            ("/p?u=%2Fvimeo%2Ffiles%2F12345-7.\(code)", "/p?u=%2Fvimeo%2Ffiles%2F12345-7"),
            ("http://x/a#token=abc", "http://x/a#token="), ("http://x/?a=1;token=b", "http://x/?a=1;token="),
            ("/a?x=1?token=b", "/a?x=1?token="), ("http://user:word@a.example/b@c", "http://a.example/b@c"),
            (
                "<https://a:b@c.example/>; rel=x, <https://d@e.example/>",
                "<https://c.example/>; rel=x, <https://e.example/>"
            ),
            (
                "/?key=\(code)&auth=2&apikey=3&sig=4&pass=5&pwd=6&hmac=7&jwt=8&session=\(code)&TOKEN%5B%5D=0",
                "/?key=&auth=&apikey=&sig=&pass=&pwd=&hmac=&jwt=&session=&TOKEN%5B%5D="
            ),
            ("slk_\(code)\(code)", "slk_"), ("Bearer slg_\(code), x", "Bearer slg_, x"),
            // Marks that combine with what is before them.
            ("/a?\u{301}&token=b", "/a?\u{301}&token="),
            ("/a?x&\u{301}=1#\u{301};token=b", "/a?x&\u{301}=1#\u{301};token="),
            ("/a?token=\u{301}b", "/a?token="), ("/a?b=%\u{301}&token=c", "/a?b=%\u{301}&token="),
            ("http://\u{301}a:b@\u{301}c.example/", "http://\u{301}c.example/"),
            ("http:/\u{301}/\u{301}x/7.\(code)", "http:/\u{301}/\u{301}x/7.\(code)"),
            ("http://\u{301}x/7.\(code)", "http://\u{301}x/7"), ("a ;/\u{301}7.\(code)", "a ;/\u{301}7"),
            ("http://://a@b", "http://://b"), ("http://a@://b@c", "http://://c"),
        ]
    )
    func texts(_ text: String, _ redacted: String) {
        #expect(HookRedaction.text(text) == redacted)
    }

    @Test(
        "other texts stay as they are",
        arguments: [
            "", "api.abcdefghijklmnopqrstuv.example", "https://api.abcdefghijklmnopqrstuv/", "a@b.example",
            "https://api.abcdefghijklmnopqrstuv.example/a?b=api.abcdefghijklmnopqrstuv.example",
            "application/vnd.abcdefghijklmnopqrstuv", "Mozilla/5.0 (X11; Linux x86_64) Chrome/120.0.0.0", "?0", "?1",
            "\"Not?A_Brand\";v=\"8\", \"Chromium\";v=\"108\"", "sha-256=:abc=:", "/a%2Fb?c=d%20e&f=%zz#g", "keyslk_abc",
            "for=192.0.2.1;proto=https;host=a.example", "filename YS50eHQ=,b", id,
            "/s3/multipart/x/complete?key=uploads%2Falice%2Ffilm.mp4", "https://a.example/list?key=page1&session=2",
        ]
    )
    func others(_ text: String) {
        #expect(HookRedaction.text(text) == text)
    }

    // Going back by characters looks at all regional indicators before one.
    @Test("many flags take no longer than their length", arguments: ["https://a@", "/a?"])
    func flags(_ start: String) {
        let text = start + String(repeating: "\u{1F1E9}", count: 1_000_000)
        #expect(HookRedaction.text(text).utf8.count >= 4_000_000)
    }

    // A quadratic one would take hours.
    @Test(
        "long texts take no longer than their length",
        arguments: ["_", "slk_", ".", "/.\(code)", "a.\(code)", "//", "@", "%5F", "?", "=", "&a=", "://a@", ";/"]
    )
    func longTexts(_ piece: String) {
        let text = String(repeating: piece, count: 200_000 / piece.utf8.count)
        #expect(HookRedaction.text(text).utf8.count <= text.utf8.count)
        #expect(HookRedaction.text("https://a.example/?" + text).utf8.count <= text.utf8.count + 100)
    }

    // Comparing it takes time by the square of its marks.
    @Test("a name of many combining marks has no value")
    func marks() {
        let name = "a" + String(repeating: "%CC%81%CC%A3", count: 30_000)
        #expect(HookRedaction.text("https://a.example/?\(name)=b") == "https://a.example/?\(name)=")
    }
}
