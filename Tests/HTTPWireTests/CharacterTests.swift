import HTTPWire
import Testing

@Suite("Classes of characters", .timeLimit(.minutes(1)))
struct CharacterTests {
    private static let alphanumerics = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

    @Test("tokens have the characters of RFC 9110 §5.6.2, unreserved text those of RFC 3986 §2.3, and no others")
    func classes() {
        let tokens = Set((Self.alphanumerics + "!#$%&'*+-.^_`|~").utf8)
        let unreserved = Set((Self.alphanumerics + "-._~").utf8)
        for byte in UInt8.min...UInt8.max {
            #expect(HTTPCharacters.isToken(byte) == tokens.contains(byte), "\(byte)")
            #expect(PercentEncoding.isUnreserved(byte) == unreserved.contains(byte), "\(byte)")
        }
    }

    @Test("a field is found by its name in any case, however long, and by no other name")
    func names() throws {
        for name in ["a", "Host", "Content-Type", "Authorization", "X-Amz-Content-Sha256", "a^b", "a~b"] {
            let fields = HTTPFields([try #require(FieldName(name)): "1"])
            for spelling in [name, name.uppercased(), name.lowercased()] {
                #expect(fields.contains(try #require(FieldName(spelling))), "\(name) as \(spelling)")
            }
            for place in name.indices {
                var other = name
                other.replaceSubrange(place...place, with: name[place] == "x" ? "y" : "x")
                if other.lowercased() == name.lowercased() { continue }
                #expect(!fields.contains(try #require(FieldName(other))), "\(name) as \(other)")
            }
        }
        #expect(!HTTPFields(["a^b": "1"]).contains("a~b"))
    }
}
