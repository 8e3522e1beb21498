/// Peers of one kind: addresses in a range, or all clients of Unix sockets (`unix:`, as nginx writes them).
package enum PeerRange: Sendable, Hashable, CustomStringConvertible {
    case addresses(CIDR)
    case unix

    /// Parses `unix:`, or what `CIDR` parses.
    package init?(_ text: some StringProtocol) {
        if text == SocketAddress.unix {
            self = .unix
        } else if let range = CIDR(text) {
            self = .addresses(range)
        } else {
            return nil
        }
    }

    /// Whether the peer with this address, in the form of `SocketAddress.host`, is one of them.
    package func contains(_ address: String) -> Bool {
        switch self {
        case .addresses(let range): range.contains(address)
        case .unix: address.hasPrefix(SocketAddress.unix)
        }
    }

    package func contains(_ address: IPAddress) -> Bool {
        switch self {
        case .addresses(let range): range.contains(address)
        case .unix: false
        }
    }

    package var description: String {
        switch self {
        case .addresses(let range): range.description
        case .unix: SocketAddress.unix
        }
    }
}
