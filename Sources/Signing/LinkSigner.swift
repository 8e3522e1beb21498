internal import Bytes
internal import Digests

/// Creates and verifies the short codes in capability URLs: anyone with the link can use it.
///
/// A code is HMAC-SHA256 of the text, truncated to 128 bits (RFC 2104 §5), in base64url without padding: 22 characters.
package struct LinkSigner: Sendable {
    private let key: HMACKey
    /// Keys of the other master secrets.
    private let others: [HMACKey]

    /// A signer with a separate key for each kind of link, so that one kind cannot replace another.
    package init(master: MasterSecret, purpose: String) {
        key = HMACKey(.sha256, master.key(for: purpose))
        others = master.each.dropFirst().map { HMACKey(.sha256, $0.key(for: purpose)) }
    }

    /// The code of `text`, 22 characters.
    ///
    /// The text must not contain a line feed, which separates the expiry.
    package func sign(_ text: String) -> String { Self.code(of: text, key) }

    private static func code(of text: String, _ key: HMACKey) -> String {
        Base64.encodeURLSafe(key.code(for: text.utf8).prefix(16))
    }

    /// Whether `signature` is the code of `text` under one of the master secrets.
    package func verify(_ text: String, signature: some StringProtocol) -> Bool {
        constantTimeEquals(sign(text).utf8, signature.utf8)
            || others.contains { constantTimeEquals(Self.code(of: text, $0).utf8, signature.utf8) }
    }

    /// The code of `text` with an expiry in Unix seconds: it covers the text, a line feed and the decimal number.
    package func sign(_ text: String, expiresAt expiry: Int64) -> String {
        sign("\(text)\n\(expiry)")
    }

    /// Whether `signature` is the code of `text` with this expiry, and the expiry is in the future.
    package func verify(_ text: String, expiresAt expiry: Int64, signature: some StringProtocol, at now: Int64) -> Bool
    {
        verify("\(text)\n\(expiry)", signature: signature) && now < expiry
    }
}
