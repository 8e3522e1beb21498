/// What limits count as one client: an IPv4 address, or the /64 network of an IPv6 address, because one subscriber has
/// at least that many addresses (RFC 6177 §2).
package struct AddressBlock: Sendable, Hashable {
    /// The IPv4 address, or the first half of the IPv6 address, as a number.
    private let number: UInt64
    private let family: Family

    private enum Family { case ipv4, ipv6, unknown }

    package init(_ address: IPAddress) {
        number = address.isIPv6 ? address.high : address.low
        family = address.isIPv6 ? .ipv6 : .ipv4
    }

    private init(number: UInt64, family: Family) { (self.number, self.family) = (number, family) }

    /// All clients together whose addresses are not known.
    package static let unknown = AddressBlock(number: 0, family: .unknown)

    /// Parses what `IPAddress` parses; `nil` for anything else, such as a Unix socket.
    package init?(_ address: String) {
        guard let address = IPAddress(address) else { return nil }
        self.init(address)
    }
}
