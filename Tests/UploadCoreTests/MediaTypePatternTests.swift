import Testing
import UploadModel

@Suite("Patterns of media types", .timeLimit(.minutes(10)))
struct MediaTypePatternTests {
    @Test("a type is compared without its parameters; a list is no type")
    func types() {
        let expected: [(String?, String?)] = [
            (nil, nil), ("", nil), ("image", nil), ("image/", nil), ("a/b/c", nil), ("image/PNG", "image/png"),
            (" image/png ; x=1", "image/png"), (#"video/mp4; codecs="avc1, mp4a""#, "video/mp4"),
            (#"video/mp4; a="\", b""#, "video/mp4"), ("image/png, text/html", nil), ("image/png;x=1, text/html", nil),
            (#"image/png;x="1", text/html"#, nil), (#"image/png;x="\\", text/html"#, nil),
        ]
        for (text, essence) in expected { #expect(MediaTypePattern.essence(of: text) == essence, "\(text ?? "none")") }
        #expect(throws: UploadError.self) {
            try MediaTypePattern.check("image/png;x=1, text/html", against: ["image/*"])
        }
        #expect(throws: Never.self) { try MediaTypePattern.check("image/png;x=1", against: ["image/*"]) }
    }
}
