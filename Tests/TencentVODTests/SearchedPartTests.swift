import SluiceTesting
import Testing

@testable import VODKit

@Suite("Words that are searched for", .timeLimit(.minutes(10)))
struct SearchedPartTests {
    private func has(_ text: String, _ part: String) -> Bool { SearchedPart(part).isPart(of: SearchableText(text)) }

    @Test("a word is found without regard to case, and however its letters are composed")
    func meaning() {
        #expect(has("Summer Holiday", "HOLI") && has("a", "A") && !has("Summer Holiday", "") && !has("", ""))
        #expect(!has("Summer Holiday", "holy") && !has("", "a") && !has("ab", "abc"))
        #expect(has("Ärger", "\u{e4}R") && has("A\u{308}rger", "ä") && has("Ärger", "a\u{308}rg") && !has("Ärger", "a"))
    }

    @Test("a word is made ready once: equal words are equal in any case")
    func parsed() {
        #expect(SearchedPart("ÉTÉ") == SearchedPart("été") && SearchedPart("ÉTÉ") == SearchedPart("E\u{301}te\u{301}"))
        #expect(SearchedPart("ete") != SearchedPart("été"))
    }

    @Test("a word is found where a plain search finds it", arguments: [1, 2, 3] as [UInt64])
    func search(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        func random(_ lengths: ClosedRange<Int>) -> String {
            (0..<Int.random(in: lengths, using: &generator)).map { _ in
                ["a", "b", "é"].randomElement(using: &generator) ?? ""
            }.joined()
        }
        var found = 0
        for _ in 0..<5000 {
            let (text, part) = (random(0...24), random(0...6))
            let expected = !part.isEmpty && text.contains(part)
            if expected { found += 1 }
            #expect(has(text, part) == expected, "\(text) \(part)")
        }
        #expect((500..<4500).contains(found))
    }
}
