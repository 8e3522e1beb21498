internal import Digests

/// The keys of AWS4, OSS4 and TC3: a secret narrowed by HMAC-SHA256 to a day, a service and the like.
enum SigningKey {
    /// The code of each part under the code of the part before it; the last code is the key.
    static func derive(from secret: String, over parts: [String]) -> HMACKey {
        var key = Array(secret.utf8)
        for part in parts { key = HMAC.code(.sha256, key: key, message: Array(part.utf8)) }
        return HMACKey(.sha256, key)
    }
}
