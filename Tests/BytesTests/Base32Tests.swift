import Testing

@testable import Bytes

@Suite("Base32", .timeLimit(.minutes(10)))
struct Base32Tests {
    /// The vectors of RFC 4648 §10, without padding.
    @Test(
        "the vectors of RFC 4648 encode and decode",
        arguments: [
            ("", ""), ("f", "MY"), ("fo", "MZXQ"), ("foo", "MZXW6"), ("foob", "MZXW6YQ"), ("fooba", "MZXW6YTB"),
            ("foobar", "MZXW6YTBOI"),
        ]
    )
    func vectors(_ text: String, _ encoded: String) {
        #expect(Base32.encode(text.utf8) == encoded)
        #expect(Base32.decode(encoded) == Array(text.utf8))
    }

    @Test(
        "text that no encoder produces is refused",
        arguments: ["M", "MZXW6Y", "MZ======", "mzxw6", "MZXW1", "MZ", "MZXW6YQÄ"]
    )
    func malformed(_ text: String) {
        #expect(Base32.decode(text) == nil)
    }
}
