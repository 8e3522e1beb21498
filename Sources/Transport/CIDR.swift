/// A range of addresses: `10.0.0.0/8`, `2001:db8::/32`, or one address (RFC 4632 §3.1, RFC 4291 §2.3).
package struct CIDR: Sendable, Hashable, CustomStringConvertible {
    package let address: IPAddress
    /// Number of leading bits that addresses in the range share; at most 32 or 128.
    package let prefixLength: Int

    /// Parses `text`; `nil` also if bits after the prefix are set, as in `10.0.0.1/8`.
    package init?(_ text: some StringProtocol) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let first = parts.first, let address = IPAddress(first) else { return nil }
        let bits = address.isIPv6 ? 128 : 32
        if parts.count == 2 {
            let digits = parts[1]
            guard digits.utf8.count <= 3, digits.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }),
                let length = Int(digits), length <= bits
            else { return nil }
            prefixLength = length
        } else {
            prefixLength = bits
        }
        self.address = address
        guard Self.masked(address, to: prefixLength) == address else { return nil }
    }

    /// Whether the range contains `other`.
    ///
    /// A range of IPv6 addresses contains no IPv4 address.
    package func contains(_ other: IPAddress) -> Bool {
        other.isIPv6 == address.isIPv6 && Self.masked(other, to: prefixLength) == address
    }

    /// Whether the range contains the address in `text`; `false` if it is not an address.
    package func contains(_ text: some StringProtocol) -> Bool {
        IPAddress(text).map { contains($0) } ?? false
    }

    package var description: String {
        prefixLength == (address.isIPv6 ? 128 : 32) ? "\(address)" : "\(address)/\(prefixLength)"
    }

    private static func masked(_ address: IPAddress, to length: Int) -> IPAddress {
        // `<<` by 64 or more leaves 0.
        let zeros = (address.isIPv6 ? 128 : 32) - length
        return IPAddress(
            isIPv6: address.isIPv6,
            high: address.high & UInt64.max << max(zeros - 64, 0),
            low: address.low & UInt64.max << zeros
        )
    }
}
