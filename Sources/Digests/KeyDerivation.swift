/// HKDF with SHA-256, RFC 5869.
package enum KeyDerivation {
    /// Derives a key from a secret.
    ///
    /// - Parameters:
    ///   - secret: The input keying material, of any length; must not be a password.
    ///   - salt: An empty salt means 32 zero bytes (§2.2).
    ///   - info: The purpose of the key; different texts give independent keys.
    ///   - count: Bytes of the key, 1 to 8160 (§2.3).
    /// - Returns: `count` bytes.
    package static func hkdf(secret: [UInt8], salt: [UInt8] = [], info: String, count: Int) -> [UInt8] {
        hkdf(secret: secret, salt: salt, info: Array(info.utf8), count: count)
    }

    static func hkdf(secret: [UInt8], salt: [UInt8], info: [UInt8], count: Int) -> [UInt8] {
        let size = DigestAlgorithm.sha256.byteCount
        precondition((1...255 * size).contains(count), "HKDF gives 1 to 8160 bytes")
        let extracted = HMAC.code(.sha256, key: salt, message: secret)
        let key = HMACKey(.sha256, extracted)
        var output: [UInt8] = []
        var block: [UInt8] = []
        var counter: UInt8 = 0
        while output.count < count {
            counter += 1
            block = key.code(for: block + info + [counter])
            output += block
        }
        return Array(output.prefix(count))
    }
}
