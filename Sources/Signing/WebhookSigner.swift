internal import Bytes
internal import Digests

/// Signs webhooks according to Standard Webhooks (standardwebhooks.com, specification 1.0.0, "Signature scheme").
///
/// The signature is HMAC-SHA256 of message id, Unix seconds and content, joined by full stops.
package struct WebhookSigner: Sendable {
    private let keys: [HMACKey]
    /// The secret in the format of receivers' libraries: `whsec_` and base64.
    package let secret: String

    /// - Parameters:
    ///   - key: 24 to 64 bytes.
    ///   - others: Keys that receivers may still or already use during a rotation. The message has a signature with
    /// each key, and one
    ///     valid signature is enough.
    package init(key: [UInt8], others: [[UInt8]] = []) {
        keys = ([key] + others).map { HMACKey(.sha256, $0) }
        secret = "whsec_" + Base64.encode(key)
    }

    /// The key in a secret; `nil` unless it has 24 to 64 bytes.
    package static func key(in secret: String) -> [UInt8]? {
        guard secret.hasPrefix("whsec_") else { return nil }
        let text = String(secret.dropFirst(6))
        guard let key = Base64.decode(text), (24...64).contains(key.count), Base64.encode(key) == text else {
            return nil
        }
        return key
    }

    /// The header fields of one attempt to deliver a message.
    ///
    /// - Parameters:
    ///   - id: The same for every attempt.
    ///   - timestamp: Unix seconds of this attempt.
    ///   - content: The exact bytes of the message.
    /// - Returns: Names and values.
    package func fields(
        id: String,
        timestamp: Int64,
        content: [UInt8]
    ) -> [(name: String, value: String)] {
        let message = Array("\(id).\(timestamp).".utf8) + content
        let signatures = keys.map { "v1," + Base64.encode($0.code(for: message)) }
        return [
            ("webhook-id", id), ("webhook-timestamp", String(timestamp)),
            ("webhook-signature", signatures.joined(separator: " ")),
        ]
    }
}
