import Bytes
import Testing

@Suite("Text from clients", .timeLimit(.minutes(10)))
struct ClientTextTests {
    private static let marks = String(repeating: "\u{301}\u{323}", count: 32)

    @Test("has at most 64 combining marks in a row, written in any way")
    func marks() {
        #expect(String(clientText: "a\(Self.marks)b\(Self.marks)é日本".utf8) != nil)
        #expect(String(clientText: "a\(Self.marks)\u{301}".utf8) == nil)
        #expect(String(clientText: [0x61, 0xFF]) == nil)
        #expect(!ClientText.isAllowed(String(repeating: "\u{1D165}", count: 65)))
        let written = (Self.marks + "\u{301}").unicodeScalars.map { "\\u0\(String($0.value, radix: 16))" }.joined()
        for text in [written, Self.marks + "\u{301}"] {
            #expect(JSONValue(json: Array("[\"\(text)\"]".utf8)) == nil)
            #expect(JSONValue(json: Array("{\"\(text)\":1}".utf8)) == nil)
        }
        #expect(JSONValue(json: Array("[\"\(Self.marks)\"]".utf8)) == .array([.string(Self.marks)]))
    }
}
