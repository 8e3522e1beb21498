internal import Digests

/// The one secret of an installation, from which the keys for every purpose are derived.
///
/// It never appears in a description, a reflection or a log.
package struct MasterSecret: Sendable {
    /// Bytes that a secret must have at least.
    package static let minimumByteCount = 32

    private let bytes: [UInt8]

    /// The secret `bytes`; `nil` if there are fewer than 32.
    package init?(bytes: [UInt8]) {
        guard bytes.count >= Self.minimumByteCount else { return nil }
        self.bytes = bytes
    }

    /// The key for `purpose`: HKDF-SHA256 (RFC 5869) with the purpose as info.
    ///
    /// Keys for different purposes tell nothing about each other. The same secret and purpose always give the same key.
    ///
    /// - Parameters:
    ///   - purpose: A text that no other use has; changing it makes everything invalid that was signed before.
    ///   - count: Bytes, 1 to 8160.
    /// - Returns: `count` bytes.
    package func key(for purpose: String, count: Int = 32) -> [UInt8] {
        KeyDerivation.hkdf(secret: bytes, info: "sluice/\(purpose)", count: count)
    }
}

extension MasterSecret: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { "<redacted>" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: []) }
}
