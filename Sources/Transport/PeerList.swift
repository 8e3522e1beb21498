internal import Synchronization

/// A list of peers that can be replaced while it is in use.
///
/// All parts that share the list see the change.
package final class PeerList: Sendable, ExpressibleByArrayLiteral {
    private let ranges: Mutex<[PeerRange]>

    package init(_ ranges: [PeerRange] = []) { self.ranges = Mutex(ranges) }

    package convenience init(arrayLiteral ranges: PeerRange...) { self.init(ranges) }

    package var current: [PeerRange] { ranges.withLock { $0 } }

    package var isEmpty: Bool { ranges.withLock { $0.isEmpty } }

    /// Whether the peer with this address, in the form of `SocketAddress.host`, is one of them.
    package func contains(_ address: String) -> Bool {
        let ranges = current
        return ranges.contains { $0.contains(address) }
    }

    package func replace(with other: [PeerRange]) { ranges.withLock { $0 = other } }
}
