/// What limits count as one client: an IPv4 address, or the /64 network of an IPv6 address, because one subscriber has
/// at least that many addresses (RFC 6177 §2).
package struct AddressBlock: Sendable, Hashable {
    /// The IPv4 address, or the first half of the IPv6 address, as a number.
    private let number: UInt64
    private let isIPv6: Bool

    package init(_ address: IPAddress) {
        number = address.isIPv6 ? address.high : address.low
        isIPv6 = address.isIPv6
    }

    /// Parses what `IPAddress` parses; `nil` for anything else, such as a Unix socket.
    package init?(_ address: String) {
        guard let address = IPAddress(address) else { return nil }
        self.init(address)
    }
}
