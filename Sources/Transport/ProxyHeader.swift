/// What a proxy sends before the first byte of its client: versions 1 and 2 of the PROXY protocol
/// (https://www.haproxy.org/download/2.9/doc/proxy-protocol.txt).
package enum ProxyHeader: Sendable, Equatable {
    /// More bytes are needed.
    case incomplete
    /// - Parameters:
    ///   - length: Bytes of the header.
    ///   - client: Whom the proxy serves; `nil` if the connection is the proxy's own, or of a kind that has no address.
    case complete(length: Int, client: SocketAddress?)
    /// Not such a header.
    case invalid

    /// Longest header that is read: section 2.2 allows 64 KiB of extensions, which no proxy sends.
    package static let maximumLength = 4096

    /// §2.1: the longest line, with its end.
    private static let longestLine = 107
    private static let signature: [UInt8] = [
        0x0D, 0x0A, 0x0D, 0x0A, 0x00, 0x0D, 0x0A, 0x51, 0x55, 0x49, 0x54, 0x0A,
    ]

    /// The header that `bytes` begin with.
    package init(parsing bytes: [UInt8]) {
        let start = bytes.prefix(Self.signature.count)
        if Self.signature.starts(with: start) {
            self = start.count < Self.signature.count ? .incomplete : Self.binary(bytes)
        } else {
            self = Self.text(bytes)
        }
    }

    /// §2.1: `PROXY TCP4 source destination source-port destination-port` and a line end.
    private static func text(_ bytes: [UInt8]) -> ProxyHeader {
        let keyword = Array("PROXY ".utf8)
        guard keyword.starts(with: bytes.prefix(keyword.count)) else { return .invalid }
        let line = bytes.prefix(longestLine)
        guard let end = line.firstIndex(of: 0x0A) else {
            return bytes.count < longestLine ? .incomplete : .invalid
        }
        guard end > 0, line[end - 1] == 0x0D, line[..<(end - 1)].allSatisfy({ (0x20...0x7E).contains($0) }) else {
            return .invalid
        }
        let words = String(decoding: line[..<(end - 1)], as: UTF8.self)
            .split(separator: " ", omittingEmptySubsequences: false)
        if words.count >= 2, words[1] == "UNKNOWN" { return .complete(length: end + 1, client: nil) }
        guard words.count == 6, words[1] == "TCP4" || words[1] == "TCP6",
            let source = IPAddress(words[2]), IPAddress(words[3]) != nil,
            words[2...3].allSatisfy({ $0.contains(":") == (words[1] == "TCP6") }),
            let port = port(words[4]), Self.port(words[5]) != nil
        else { return .invalid }
        return .complete(length: end + 1, client: SocketAddress(host: "\(source)", port: port))
    }

    private static func port(_ text: Substring) -> UInt16? {
        guard !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        return UInt16(text)
    }

    /// §2.2: version and command, family and protocol, length, addresses, extensions.
    private static func binary(_ bytes: [UInt8]) -> ProxyHeader {
        guard bytes.count >= 16 else { return .incomplete }
        let length = 16 + (Int(bytes[14]) << 8 | Int(bytes[15]))
        guard bytes[12] >> 4 == 2, bytes[12] & 0x0F <= 1, length <= maximumLength else { return .invalid }
        guard bytes.count >= length else { return .incomplete }
        // LOCAL: the proxy's own connection, such as a health check.
        guard bytes[12] & 0x0F == 1 else { return .complete(length: length, client: nil) }
        let size: Int
        switch bytes[13] >> 4 {
        case 1: size = 4
        case 2: size = 16
        case 0, 3: return .complete(length: length, client: nil)
        default: return .invalid
        }
        guard length >= 16 + 2 * size + 4, let raw = IPAddress(bytes: Array(bytes[16..<(16 + size)])),
            // An IPv4 address in the form of IPv6 becomes IPv4.
            let address = IPAddress("\(raw)")
        else { return .invalid }
        let port = UInt16(bytes[16 + 2 * size]) << 8 | UInt16(bytes[17 + 2 * size])
        return .complete(length: length, client: SocketAddress(host: "\(address)", port: port))
    }
}
