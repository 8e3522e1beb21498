internal import Bytes
internal import Digests
package import Foundation
package import UploadModel

/// The secret text of an API key: shown once, and stored only as its SHA-256.
///
/// A plain hash is enough, because 256 random bits cannot be guessed.
package enum APIKeySecret {
    /// The prefix of every generated secret, so that scanners for leaked secrets recognise it.
    package static let prefix = "slk_"

    /// Generates a key and its secret: `slk_` and 43 characters of base64url.
    ///
    /// - Parameters:
    ///   - id: `nil` for a random one.
    ///   - name: A description of the key's purpose.
    ///   - scopes: The allowed operations.
    ///   - expiresAt: `nil` for never.
    ///   - now: The time of creation.
    /// - Returns: The secret, which is not stored anywhere, and the key.
    package static func generate(
        id: String? = nil,
        name: String,
        scopes: Set<Scope>,
        expiresAt: Date?,
        at now: Date
    ) -> (secret: String, key: APIKey) {
        let secret = generate()
        let key = APIKey(
            id: id ?? "key_\(identifier())",
            name: name,
            scopes: scopes,
            createdAt: now,
            expiresAt: expiresAt,
            digest: digest(of: secret)
        )
        return (secret, key)
    }

    /// A new secret.
    package static func generate() -> String { prefix + Base64.encodeURLSafe(SecureRandom.bytes(32)) }

    /// The SHA-256 of the UTF-8 bytes of `secret`, which is stored in its place.
    package static func digest(of secret: String) -> [UInt8] {
        Digest.hash(secret.utf8, .sha256)
    }

    /// 16 characters of Crockford's base32: 80 random bits.
    private static func identifier() -> String {
        let alphabet = Array("0123456789abcdefghjkmnpqrstvwxyz".utf8)
        return String(decoding: SecureRandom.bytes(16).map { alphabet[Int($0 & 31)] }, as: UTF8.self)
    }
}
