/// When to set disk blocks aside for a content that comes fast, and how many: as many as have come.
///
/// Writing into blocks that exist costs less than having the file system find each page its place. A client cannot hold more of the
/// disk than it has sent, so that many slow uploads do not take what others need. Whoever receives the content gives back what it
/// did not fill.
struct BlockReservation: Sendable, Equatable {
    /// Content bytes so far.
    private var received: Int64 = 0
    /// The next blocks are set aside when as many bytes have come.
    private var next = Self.least

    /// Smaller contents are over before it is worth it.
    static let least: Int64 = 1 << 20
    /// Beyond this, the storage sets aside longer ranges itself.
    static let most: Int64 = 32 << 20

    /// Counts bytes that were written.
    ///
    /// - Parameters:
    ///   - count: The bytes.
    ///   - left: Bytes that are still to come, as far as is known; at least 0.
    /// - Returns: How many blocks to set aside now behind the last byte, in bytes; `nil` for none.
    mutating func advance(by count: Int64, left: Int64) -> Int64? {
        received += count
        guard received >= next, received < Self.most, left > 0 else { return nil }
        let blocks = min(received, left)
        next = received + blocks
        return blocks
    }
}
