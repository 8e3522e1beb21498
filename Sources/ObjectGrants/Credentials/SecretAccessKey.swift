internal import Bytes
internal import Digests
internal import Signing

/// The secret half of a key pair: never stored, but derived from the public half.
package struct SecretAccessKey: Sendable {
    /// For signatures and for the client that owns it: 40 letters and digits, 200 bits.
    package let text: String

    init(_ text: String) { self.text = text }
}

extension SecretAccessKey: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { "<redacted>" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

/// Derives secret keys for one purpose.
struct SecretAccessKeyDerivation: Sendable {
    private let key: HMACKey

    /// Derives from `master`; each purpose gives different keys.
    init(master: MasterSecret, purpose: String) {
        key = HMACKey(.sha256, master.key(for: purpose))
    }

    /// The first 25 bytes of the HMAC-SHA256 of the message.
    func secret(for message: some Collection<UInt8>) -> SecretAccessKey {
        SecretAccessKey(Base32.encode(key.code(for: message).prefix(25)))
    }
}
