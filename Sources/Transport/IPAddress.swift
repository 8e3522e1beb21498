#if canImport(Glibc)
internal import Glibc
#elseif canImport(Darwin)
internal import Darwin
#endif

/// An IPv4 or IPv6 address without port.
package struct IPAddress: Sendable, Hashable {
    /// 4 or 16 bytes in network order.
    package let bytes: [UInt8]

    /// Parses `text`: dotted decimal, or IPv6 (RFC 4291 §2.2) without brackets; `nil` for anything else.
    ///
    /// An IPv4-mapped address (`::ffff:192.0.2.1`) becomes that IPv4 address. A zone (`fe80::1%eth0`) is dropped.
    package init?(_ text: some StringProtocol) {
        let address = String(text.prefix { $0 != "%" })
        guard !address.utf8.contains(0) else { return nil }
        var buffer = [UInt8](repeating: 0, count: 16)
        if inet_pton(AF_INET, address, &buffer) == 1 {
            guard address.utf8.count == text.utf8.count else { return nil }
            bytes = Array(buffer.prefix(4))
        } else if inet_pton(AF_INET6, address, &buffer) == 1 {
            let isMapped = buffer.prefix(10).allSatisfy { $0 == 0 } && buffer[10] == 0xFF && buffer[11] == 0xFF
            bytes = isMapped ? Array(buffer.suffix(4)) : buffer
        } else {
            return nil
        }
    }

    /// The address with exactly these bytes: an IPv4-mapped address stays IPv6.
    ///
    /// - Parameter bytes: 4 or 16 bytes in network order; the result is `nil` for any other number.
    package init?(bytes: [UInt8]) {
        guard bytes.count == 4 || bytes.count == 16 else { return nil }
        self.bytes = bytes
    }

    package var isIPv6: Bool { bytes.count == 16 }
}

extension IPAddress: CustomStringConvertible {
    package var description: String {
        guard isIPv6 else { return bytes.map(String.init).joined(separator: ".") }
        var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        var address = bytes
        guard inet_ntop(AF_INET6, &address, &text, socklen_t(text.count)) != nil else { return "" }
        return String(decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}
