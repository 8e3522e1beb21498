#if canImport(Glibc)
internal import Glibc
#elseif canImport(Darwin)
internal import Darwin
#endif

/// An IPv4 or IPv6 address without port.
///
/// Parsing and comparing allocate nothing, because each request does it.
package struct IPAddress: Sendable, Hashable {
    package let isIPv6: Bool
    /// The first half of an IPv6 address as a number; 0 for IPv4.
    let high: UInt64
    /// The second half of an IPv6 address, or the IPv4 address, as a number.
    let low: UInt64

    init(isIPv6: Bool, high: UInt64, low: UInt64) {
        self.isIPv6 = isIPv6
        self.high = high
        self.low = low
    }

    /// Parses `text`: dotted decimal, or IPv6 (RFC 4291 §2.2) without brackets; `nil` for anything else.
    ///
    /// An IPv4-mapped address (`::ffff:192.0.2.1`) becomes that IPv4 address. A zone (`fe80::1%eth0`) is dropped.
    ///
    /// Inlinable, because a generic function that is not specialised costs more than the parsing.
    @inlinable
    package init?(_ text: some StringProtocol) { self.init(text: String(text)) }

    @usableFromInline
    init?(text: String) {
        let zone = text.utf8.firstIndex(of: UInt8(ascii: "%"))
        let address = zone.map { String(text[..<$0]) } ?? text
        guard !address.utf8.contains(0) else { return nil }
        var four = in_addr()
        if zone == nil, address.withCString({ inet_pton(AF_INET, $0, &four) }) == 1 {
            self.init(isIPv6: false, high: 0, low: UInt64(UInt32(bigEndian: four.s_addr)))
            return
        }
        var six = in6_addr()
        guard address.withCString({ inet_pton(AF_INET6, $0, &six) }) == 1 else { return nil }
        // The 16 bytes of the address; the pointer does not leave the closure.
        let (first, second) = withUnsafeBytes(of: six) { bytes in
            (bytes.loadUnaligned(as: UInt64.self), bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
        }
        let (high, low) = (UInt64(bigEndian: first), UInt64(bigEndian: second))
        let isMapped = high == 0 && low >> 32 == 0xFFFF
        self.init(isIPv6: !isMapped, high: high, low: isMapped ? low & 0xFFFF_FFFF : low)
    }

    /// The address with exactly these bytes: an IPv4-mapped address stays IPv6.
    ///
    /// - Parameter bytes: 4 or 16 bytes in network order; the result is `nil` for any other number.
    package init?(bytes: [UInt8]) {
        guard bytes.count == 4 || bytes.count == 16 else { return nil }
        func number(_ bytes: ArraySlice<UInt8>) -> UInt64 { bytes.reduce(0) { $0 << 8 | UInt64($1) } }
        let isIPv6 = bytes.count == 16
        self.init(isIPv6: isIPv6, high: isIPv6 ? number(bytes[..<8]) : 0, low: number(bytes.suffix(8)))
    }

    /// 4 or 16 bytes in network order.
    package var bytes: [UInt8] {
        func bytes(_ number: UInt64, _ count: Int) -> [UInt8] {
            (1...count).map { UInt8(truncatingIfNeeded: number >> (8 * (count - $0))) }
        }
        return isIPv6 ? bytes(high, 8) + bytes(low, 8) : bytes(low, 4)
    }
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
