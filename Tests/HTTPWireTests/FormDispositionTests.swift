import HTTPWire
import Testing

@Suite("Content-Disposition of a part of a form", .timeLimit(.minutes(10)))
struct FormDispositionTests {
    @Test(
        "names are decoded as clients write them",
        arguments: [
            ("form-data; name=a", "a", nil), ("form-data; name=\"a\"", "a", nil), ("Form-Data;NAME=\"a\" ; ", "a", nil),
            ("form-data; name=\"\"", "", nil), ("form-data; name=\"a\"; filename=\"b.txt\"", "a", "b.txt"),
            ("form-data; filename=\"b.txt\"; name=\"a\"", "a", "b.txt"),
            ("form-data; name=\"a\"; filename=\"\"", "a", ""),
            // Browsers.
            ("form-data; name=\"a%22b%0D%0Ac\"; filename=\"%22x%22.txt\"", "a\"b\r\nc", "\"x\".txt"),
            ("form-data; name=\"100%25\"; filename=\"100%.txt\"", "100%25", "100%.txt"),
            ("form-data; name=\"a\"; filename=\"\u{FC}\u{4E2D}\u{1F3AC}.mp4\"", "a", "\u{FC}\u{4E2D}\u{1F3AC}.mp4"),
            ("form-data; name=\"a;b\"; filename=\"x;y=\\z.txt\"", "a;b", "z.txt"),
            ("form-data; name=\"a\\\"", "a\\", nil),
            // curl, httpx, mailers.
            ("form-data; name=\"a\\\"b\"; filename=\"x\\\"y.txt\"", "a\"b", "x\"y.txt"),
            ("form-data; name=\"a\\\\b\"", "a\\b", nil),
            // aiohttp; RFC 7578 §4.2 does not allow it.
            ("form-data; name=\"a\"; filename=\"_\"; filename*=utf-8''%C3%BC%20b.mp4", "a", "\u{FC} b.mp4"),
            ("form-data; name=\"a\"; filename*=UTF-8'en'b.mp4", "a", "b.mp4"),
            ("form-data; name=\"a\"; filename=\"b\"; filename*=latin-1''c", "a", "b"),
            // Paths (RFC 7578 §4.2).
            ("form-data; name=\"a\"; filename=\"C:\\Users\\me\\b.txt\"", "a", "b.txt"),
            ("form-data; name=\"a\"; filename=\"../../etc/passwd\"", "a", "passwd"),
            ("form-data; name=\"a\"; filename=\"../\u{301}x\"", "a", "\u{301}x"),
            ("form-data; name=\"a\"; filename=\"folder/\"", "a", "folder"),
            ("form-data; name=\"a\"; filename=\"/\"", "a", ""),
            ("form-data; name=\"a\"; other=\"b\"", "a", nil),
        ] as [(String, String, String?)]
    )
    func reads(field: String, name: String, filename: String?) throws {
        let disposition = try #require(FormDisposition(field.utf8))
        #expect(disposition.name == name)
        #expect(disposition.filename == filename)
    }

    @Test(
        "anything else is refused",
        arguments: [
            "", "form-data", "form-data;", "form-data; filename=\"b\"", "attachment; name=\"a\"",
            "form-data name=\"a\"",
            "form-data; name", "form-data; name=", "form-data; name=\"a", "form-data; name=a b",
            "form-data; name=\"a\" b",
            "form-data; name=\"a\"; name=\"b\"", "form-data; name=\"a\"; filename=\"b\"; filename=\"c\"",
            "form-data; =\"a\"", "form-data; name=\"a\"b", "form-data, name=\"a\"", "form-data; name=\u{FC}",
        ]
    )
    func refuses(field: String) { #expect(FormDisposition(field.utf8) == nil) }

    @Test("names that are not UTF-8 are refused")
    func refusesOtherCharsets() {
        #expect(FormDisposition(Array("form-data; name=\"".utf8) + [0xFC] + Array("\"".utf8)) == nil)
    }
}
