import HTTPWire
import Testing

@Suite("Encoded words", .timeLimit(.minutes(10)))
struct EncodedWordsTests {
    @Test(
        "text is encoded in ASCII (RFC 2047 §4.2)",
        arguments: [
            ("", ""), ("a_b = c?", "a_b = c?"), ("=?UTF-8?Q?=C3=BC?=", "=?UTF-8?Q?=C3=BC?="),
            ("ü", "=?UTF-8?Q?=C3=BC?="), ("Größe 1", "=?UTF-8?Q?Gr=C3=B6=C3=9Fe_1?="),
            ("ü_=?x", "=?UTF-8?Q?=C3=BC=5F=3D=3Fx?="), ("漢\t", "=?UTF-8?Q?=E6=BC=A2=09?="),
            ("😀\u{7F}", "=?UTF-8?Q?=F0=9F=98=80=7F?="),
        ]
    )
    func writes(text: String, expected: String) {
        #expect(EncodedWords.encode(text) == expected)
    }

    @Test(
        "a long text becomes several words of at most 75 characters that decode separately (RFC 2047 §2, §5)"
    )
    func longText() {
        for text in [String(repeating: "漢", count: 100), "ü" + String(repeating: "a b", count: 70)] {
            let words = EncodedWords.encode(text).split(separator: " ")
            #expect(words.count > 1)
            var decoded = ""
            for word in words {
                #expect(word.utf8.count <= 75 && word.hasPrefix("=?UTF-8?Q?") && word.hasSuffix("?="))
                let inner = word.dropFirst(10).dropLast(2)
                let bytes = PercentEncoding.decode(
                    inner.replacing("_", with: " ").replacing("=", with: "%").utf8
                )
                decoded += bytes.flatMap { String(validating: $0, as: UTF8.self) } ?? "?"
            }
            #expect(decoded == text)
        }
    }
}
