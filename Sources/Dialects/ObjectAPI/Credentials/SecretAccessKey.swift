internal import Bytes
internal import Digests
internal import Signing

/// The secret half of a pair of keys: never kept, but derived again from the public half.
package struct SecretAccessKey: Sendable {
    /// For signatures, and for the client that it was made for: 40 letters and digits, 200 bits.
    package let text: String

    init(_ text: String) { self.text = text }
}

extension SecretAccessKey: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { "<redacted>" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

/// What secret keys of one purpose are derived with.
struct SecretAccessKeyDerivation: Sendable {
    private let key: HMACKey

    /// Under `master`; other purposes give other keys.
    init(master: MasterSecret, purpose: String) {
        key = HMACKey(.sha256, master.key(for: purpose))
    }

    /// Of HMAC-SHA256 of the message, the first 25 bytes.
    func secret(for message: some Collection<UInt8>) -> SecretAccessKey {
        SecretAccessKey(Base32.encode(key.code(for: message).prefix(25)))
    }
}
