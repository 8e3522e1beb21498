import Testing
import Transport

@Suite("What limits count as one client", .timeLimit(.minutes(10)))
struct AddressBlockTests {
    @Test(
        "the same client",
        arguments: [
            ("192.0.2.1", "::ffff:192.0.2.1"), ("2001:db8::1", "2001:db8::ffff:1:2:3"), ("fe80::1%eth0", "fe80::2"),
        ]
    )
    func same(_ one: String, _ other: String) throws {
        #expect(try #require(AddressBlock(one)) == #require(AddressBlock(other)))
    }

    @Test(
        "different clients",
        arguments: [
            ("192.0.2.1", "192.0.2.2"), ("2001:db8::1", "2001:db8:0:1::1"), ("0.0.0.0", "::1"),
            ("192.0.2.1", "::192.0.2.1"),
        ]
    )
    func different(_ one: String, _ other: String) throws {
        #expect(try #require(AddressBlock(one)) != #require(AddressBlock(other)))
    }

    @Test("clients that are not known are no address", arguments: ["0.0.0.0", "::", "127.0.0.1"])
    func unknown(_ address: String) throws {
        #expect(try #require(AddressBlock(address)) != .unknown)
        #expect(AddressBlock.unknown == .unknown)
    }

    @Test("what is not an address", arguments: ["unix:", "unix:/run/s", "", "1.2.3", "a%b", "unknown", "_hidden"])
    func neither(_ text: String) { #expect(AddressBlock(text) == nil) }
}
