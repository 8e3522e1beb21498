import Testing

@testable import Transport

@Suite("headers of the PROXY protocol", .timeLimit(.minutes(10)))
struct ProxyHeaderTests {
    private static let signature: [UInt8] = Array("\r\n\r\n\0\r\nQUIT\n".utf8)

    /// A header of version 2.
    private static func binary(_ command: UInt8, _ family: UInt8, _ rest: [UInt8], length: Int? = nil) -> [UInt8] {
        let length = length ?? rest.count
        return signature + [command, family, UInt8(length >> 8), UInt8(length & 0xFF)] + rest
    }

    private static let v4: [UInt8] = [192, 0, 2, 7, 127, 0, 0, 1, 0x1F, 0x90, 0x01, 0xBB]
    private static let v6: [UInt8] =
        [0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9] + [UInt8](repeating: 0, count: 15) + [1]
        + [0x1F, 0x90, 0x01, 0xBB]
    private static let mapped: [UInt8] =
        [UInt8](repeating: 0, count: 10) + [0xFF, 0xFF, 192, 0, 2, 7] + [UInt8](repeating: 0, count: 16)
        + [0x1F, 0x90, 0x01, 0xBB]

    @Test(
        "the client is read",
        arguments: [
            (Array("PROXY TCP4 192.0.2.7 127.0.0.1 8080 443\r\n".utf8), "192.0.2.7:8080"),
            (Array("PROXY TCP6 2001:db8::9 ::1 65535 1\r\n".utf8), "[2001:db8::9]:65535"),
            (Array("PROXY UNKNOWN\r\n".utf8), nil),
            (Array("PROXY UNKNOWN ffff:f:f:f ::1 65535 65535\r\n".utf8), nil),
            (binary(0x21, 0x11, v4), "192.0.2.7:8080"),
            (binary(0x21, 0x12, v4), "192.0.2.7:8080"),
            (binary(0x21, 0x11, v4 + [0x04, 0, 2, 9, 9]), "192.0.2.7:8080"),
            (binary(0x21, 0x21, v6), "[2001:db8::9]:8080"),
            (binary(0x21, 0x21, mapped), "192.0.2.7:8080"),
            (binary(0x20, 0x00, []), nil),
            (binary(0x20, 0x11, v4), nil),
            (binary(0x21, 0x00, [1, 2, 3]), nil),
            (binary(0x21, 0x31, [UInt8](repeating: 0, count: 216)), nil),
        ] as [([UInt8], String?)]
    )
    func complete(header: [UInt8], client: String?) {
        // What follows belongs to the client.
        guard case .complete(let length, let found) = ProxyHeader(parsing: header + Array("GET / HTTP".utf8)) else {
            Issue.record("not complete")
            return
        }
        #expect(length == header.count)
        #expect(found?.description == client)
        for count in 1..<header.count {
            #expect(ProxyHeader(parsing: Array(header.prefix(count))) == .incomplete, "\(count) bytes")
        }
    }

    @Test(
        "anything else is refused",
        arguments: [
            Array("GET / HTTP/1.1\r\n".utf8),
            Array("PROXY TCP4 192.0.2.7 127.0.0.1 8080\r\n".utf8),
            Array("PROXY TCP4 192.0.2.7 127.0.0.1 8080 443 1\r\n".utf8),
            Array("PROXY TCP4  192.0.2.7 127.0.0.1 8080 443\r\n".utf8),
            Array("PROXY TCP4 192.0.2.7 127.0.0.1 80800 443\r\n".utf8),
            Array("PROXY TCP4 192.0.2.7 127.0.0.1 +80 443\r\n".utf8),
            Array("PROXY TCP4 192.0.2 127.0.0.1 80 443\r\n".utf8),
            Array("PROXY TCP4 ::1 ::1 80 443\r\n".utf8),
            Array("PROXY TCP6 192.0.2.7 127.0.0.1 80 443\r\n".utf8),
            Array("PROXY TCP4 192.0.2.7 127.0.0.1 80 443\n".utf8),
            Array("PROXY UDP4 192.0.2.7 127.0.0.1 80 443\r\n".utf8),
            Array("PROXY UNKNOWN \u{1}\r\n".utf8),
            Array(("PROXY UNKNOWN " + String(repeating: "x", count: 100)).utf8),
            [0x16, 0x03, 0x01, 0x02, 0x00],
            signature + [0x11, 0x11, 0, 12] + v4,
            binary(0x22, 0x11, v4),
            binary(0x21, 0x41, v4),
            binary(0x21, 0x11, Array(v4.prefix(11))),
            binary(0x21, 0x21, v4),
            binary(0x21, 0x11, [], length: ProxyHeader.maximumLength),
        ]
    )
    func refused(bytes: [UInt8]) {
        #expect(ProxyHeader(parsing: bytes) == .invalid)
    }
}
