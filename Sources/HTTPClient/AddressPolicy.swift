package import Transport

/// The addresses that the client may connect to.
///
/// Each socket is checked with the address that it is about to connect to, after name resolution. Therefore neither a
/// changed DNS record nor a redirect can bypass the policy.
package enum AddressPolicy: Sendable {
    case any
    /// Public Internet addresses, and the given ranges.
    case publicOnly(allowing: [CIDR] = [])

    package func allows(_ address: IPAddress) -> Bool {
        switch self {
        case .any: true
        case .publicOnly(let ranges): ranges.contains { $0.contains(address) } || isPublic(address)
        }
    }

    private func isPublic(_ address: IPAddress) -> Bool {
        guard address.isIPv6 else { return !Self.contains(Self.special4, address) }
        let bytes = address.bytes
        // An address that embeds an IPv4 address is judged by it: a translator on the way may unpack it.
        let isMapped = bytes.starts(with: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF])
        if isMapped || Self.contains(Self.carriers4, address) { return allows(embedded: bytes[12...]) }
        if Self.contains(Self.sixToFour, address) { return allows(embedded: bytes[2..<6]) }
        if Self.contains(Self.teredo, address) {
            // RFC 4380 §4: the server, and the client with inverted bits.
            return allows(embedded: bytes[4..<8]) && allows(embedded: bytes[12...].map { ~$0 }[...])
        }
        return Self.contains(Self.global6, address) && !Self.contains(Self.special6, address)
    }

    private func allows(embedded bytes: ArraySlice<UInt8>) -> Bool {
        IPAddress(bytes: Array(bytes)).map(allows) ?? false
    }

    private static func contains(_ ranges: [CIDR], _ address: IPAddress) -> Bool {
        ranges.contains { $0.contains(address) }
    }

    private static func ranges(_ texts: String...) -> [CIDR] {
        texts.map { text in
            guard let range = CIDR(text) else { preconditionFailure("\(text) is not an address range") }
            return range
        }
    }

    /// https://www.iana.org/assignments/iana-ipv4-special-registry, the entries that are not globally reachable.
    private static let special4 = ranges(
        "0.0.0.0/8",  // this network
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",  // private
        "100.64.0.0/10",  // carrier-grade NAT
        "127.0.0.0/8",  // loopback
        "169.254.0.0/16",  // link-local
        "192.0.0.0/24",  // protocol assignments
        "192.0.2.0/24",
        "198.51.100.0/24",
        "203.0.113.0/24",  // documentation
        "192.88.99.0/24",  // relays of 6to4
        "198.18.0.0/15",  // benchmarking
        "224.0.0.0/4",  // multicast
        "240.0.0.0/4",  // reserved, broadcast
        "168.63.129.16"  // Azure's platform address, reachable from virtual machines
    )

    /// IPv4-translated (RFC 7915) and the NAT64 prefix (RFC 6052 §2.1); `IPAddress` parses IPv4-mapped text as IPv4.
    private static let carriers4 = ranges("::ffff:0:0:0/96", "64:ff9b::/96")
    private static let sixToFour = ranges("2002::/16")
    private static let teredo = ranges("2001::/32")
    /// All addresses that are assigned to the public Internet.
    private static let global6 = ranges("2000::/3")
    /// https://www.iana.org/assignments/iana-ipv6-special-registry, the entries within `global6` that are not globally
    /// reachable.
    private static let special6 = ranges(
        "2001::/23",  // protocol assignments, benchmarking, ORCHID
        "2001:db8::/32",
        "3fff::/20"  // documentation
    )
}
