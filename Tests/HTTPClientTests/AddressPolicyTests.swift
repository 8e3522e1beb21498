import HTTPClient
import Testing
import Transport

@Suite("address policy", .timeLimit(.minutes(10)))
struct AddressPolicyTests {
    private func address(_ text: String) throws -> IPAddress { try #require(IPAddress(text)) }

    /// An IPv6 address without conversion: `IPAddress` parses IPv4-mapped text as IPv4.
    private func mapped(_ bytes: [UInt8]) throws -> IPAddress {
        try #require(IPAddress(bytes: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF] + bytes))
    }

    @Test("a host has few combining marks in a row, however they are written")
    func marks() {
        for mark in ["\u{301}", "%CC%81"] {
            #expect(WebAddress("http://a\(String(repeating: mark, count: 65)).example/x") == nil)
        }
        // Where it stays encoded.
        #expect(WebAddress("http://a.example/a\(String(repeating: "%CC%81", count: 65))") != nil)
        #expect(WebAddress("http://a%CC%81.example/x") != nil)
    }

    @Test(
        "refuses addresses that are not public",
        arguments: [
            // This network.
            "0.0.0.0", "0.255.255.255",
            // Private: the first and last address of each range.
            "10.0.0.0", "10.255.255.255", "172.16.0.0", "172.31.255.255", "192.168.0.0", "192.168.255.255",
            // Carrier-grade NAT.
            "100.64.0.0", "100.127.255.255",
            // Loopback.
            "127.0.0.1", "127.255.255.255",
            // Link-local, with the metadata services of clouds.
            "169.254.0.0", "169.254.169.254", "169.254.255.255",
            // Protocol assignments, documentation, relays, benchmarking.
            "192.0.0.0", "192.0.0.192", "192.0.2.1", "198.51.100.255", "203.0.113.0", "192.88.99.1", "198.18.0.0",
            "198.19.255.255",
            // Multicast, reserved, broadcast.
            "224.0.0.1", "239.255.255.255", "240.0.0.0", "255.255.255.255",
            // Azure's platform address.
            "168.63.129.16",
            // Unspecified, loopback, IPv4-compatible.
            "::", "::1", "::127.0.0.1", "::8.8.8.8",
            // Unique local, link-local, site-local, multicast.
            "fc00::", "fd00:ec2::254", "fdff:ffff::1", "fe80::1", "febf::1", "fec0::1", "ff02::1", "ffff::1",
            // Discard, SRv6, documentation, benchmarking, ORCHID.
            "100::1", "5f00::1", "2001:db8::1", "3fff::1", "2001:2::1", "2001:10::1", "2001:20::1",
            // NAT64, its local prefix, IPv4-translated and 6to4, each with a refused IPv4 address.
            "64:ff9b::10.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b:1::8.8.8.8", "::ffff:0:192.168.0.1", "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
            // Teredo: server 10.0.0.1; client 127.0.0.1 behind a public server.
            "2001:0:a00:1::f7f7:f7f7", "2001:0:808:808::80ff:fffe",
        ]
    )
    func refused(_ text: String) throws {
        #expect(!AddressPolicy.publicOnly().allows(try address(text)))
        #expect(AddressPolicy.any.allows(try address(text)))
    }

    @Test(
        "allows public addresses",
        arguments: [
            "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255",
            "128.0.0.0", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.167.255.255",
            "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255", "2606:4700:4700::1111", "2a00:1450::1",
            "64:ff9b::8.8.8.8", "2002:808:808::1", "2001:0:808:808::f7f7:f7f7",
        ]
    )
    func allowed(_ text: String) throws {
        #expect(AddressPolicy.publicOnly().allows(try address(text)))
    }

    @Test("judges an IPv4-mapped address by the IPv4 address")
    func mappedAddresses() throws {
        for bytes: [UInt8] in [[127, 0, 0, 1], [10, 1, 2, 3], [169, 254, 169, 254], [0, 0, 0, 0]] {
            #expect(!AddressPolicy.publicOnly().allows(try mapped(bytes)))
        }
        #expect(AddressPolicy.publicOnly().allows(try mapped([8, 8, 8, 8])))
    }

    @Test("allows exactly the given ranges")
    func allowing() throws {
        let policy = AddressPolicy.publicOnly(
            allowing: [try #require(CIDR("10.1.0.0/16")), try #require(CIDR("fd12::/16"))]
        )
        #expect(policy.allows(try address("10.1.2.3")))
        #expect(policy.allows(try mapped([10, 1, 2, 3])))
        #expect(policy.allows(try address("64:ff9b::10.1.2.3")))
        #expect(policy.allows(try address("fd12::1")))
        #expect(policy.allows(try address("8.8.8.8")))
        #expect(!policy.allows(try address("10.2.0.0")))
        #expect(!policy.allows(try address("127.0.0.1")))
        #expect(!policy.allows(try address("fd13::1")))
    }
}
