internal import Digests

/// The keys of AWS4, OSS4 and TC3: HMAC-SHA256 restricts a secret to a day, a service and so on.
enum SigningKey {
    /// The HMAC of each part with the previous HMAC as its key; the last one is the signing key.
    static func derive(from secret: String, over parts: [String]) -> HMACKey {
        var key = Array(secret.utf8)
        for part in parts { key = HMAC.code(.sha256, key: key, message: Array(part.utf8)) }
        return HMACKey(.sha256, key)
    }
}
