internal import Bytes
internal import Digests

/// Makes and checks the short codes that turn a name into a capability: who has the link may use it.
///
/// A code is HMAC-SHA256 of the text, cut to its first 128 bits (RFC 2104 §5), in base64url without padding: 22 characters.
package struct LinkSigner: Sendable {
    private let key: HMACKey
    /// Of the other master secrets.
    private let others: [HMACKey]

    /// A signer with a key of its own for each kind of link, so that one kind can not stand in for another.
    package init(master: MasterSecret, purpose: String) {
        key = HMACKey(.sha256, master.key(for: purpose))
        others = master.each.dropFirst().map { HMACKey(.sha256, $0.key(for: purpose)) }
    }

    /// The code of `text`, 22 characters.
    ///
    /// The text holds no line feed, which marks the texts that expire.
    package func sign(_ text: String) -> String { Self.code(of: text, key) }

    private static func code(of text: String, _ key: HMACKey) -> String {
        Base64.encodeURLSafe(key.code(for: text.utf8).prefix(16))
    }

    /// Whether `signature` is the code of `text` under one of the master secrets.
    package func verify(_ text: String, signature: some StringProtocol) -> Bool {
        constantTimeEquals(sign(text).utf8, signature.utf8)
            || others.contains { constantTimeEquals(Self.code(of: text, $0).utf8, signature.utf8) }
    }

    /// The code of `text` until a moment in Unix seconds: of the text, a line feed and the decimal number.
    package func sign(_ text: String, expiresAt expiry: Int64) -> String {
        sign("\(text)\n\(expiry)")
    }

    /// Whether `signature` is the code of `text` with this expiry, and the expiry is still to come.
    package func verify(_ text: String, expiresAt expiry: Int64, signature: some StringProtocol, at now: Int64) -> Bool
    {
        verify("\(text)\n\(expiry)", signature: signature) && now < expiry
    }
}
