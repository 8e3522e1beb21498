import Bytes
import Testing

@Suite("Lengths in Unicode scalars", .timeLimit(.minutes(10)))
struct ScalarCountsTests {
    /// Each is one `Character` with any number of scalars.
    private static let clusters = ["\u{20DD}", "\u{200D}", "\u{E0061}"].map { "a" + String(repeating: $0, count: 999) }

    @Test("a limit counts scalars, and not characters", arguments: clusters)
    func limits(_ text: String) {
        #expect(text.count == 1)
        #expect(text.hasScalars(atMost: 1000) && !text.hasScalars(atMost: 999) && !text.hasScalars(atMost: 1))
        #expect(text.first(scalars: 7).unicodeScalars.elementsEqual(text.unicodeScalars.prefix(7)))
        #expect(text.first(scalars: 1000).utf8.elementsEqual(text.utf8))
        #expect(text.dropFirst(0).hasScalars(atMost: 1000) && text[...].first(scalars: 1) == "a")
    }

    @Test("a scalar may have several bytes")
    func bytes() {
        #expect("日本語".hasScalars(atMost: 3) && !"日本語".hasScalars(atMost: 2))
        #expect("日本語".first(scalars: 2) == "日本" && "日本語".first(scalars: 9) == "日本語")
        #expect("".hasScalars(atMost: 0) && !"a".hasScalars(atMost: 0) && "a".first(scalars: 0).isEmpty)
    }
}
