import HTTPWire
import Testing

@Suite("Percent-encoded text", .timeLimit(.minutes(10)))
struct PercentEncodingTests {
    @Test("text is decoded once, and is text that a client may send")
    func text() {
        #expect(PercentEncoding.text("a%20b+%2525%C3%A9日".utf8) == "a b+%25é日")
        #expect(PercentEncoding.text("".utf8) == "")
        for wrong in ["%", "%2", "%zz", "%FF", "%C3", "%ED%A0%80"] { #expect(PercentEncoding.text(wrong.utf8) == nil) }
        func marks(_ count: Int) -> String? {
            PercentEncoding.text(("a" + String(repeating: "%CC%81", count: count)).utf8)
        }
        #expect(marks(64)?.unicodeScalars.count == 65 && marks(65) == nil)
    }
}
