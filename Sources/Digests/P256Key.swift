internal import Bytes
internal import COpenSSL

/// A private key of ECDSA on P-256 (FIPS 186-5), by OpenSSL.
///
/// Stored as ECPrivateKey (RFC 5915) in DER; the OpenSSL pointers live within one call.
package struct P256Key: Sendable {
    /// ECPrivateKey in DER.
    package let encoded: [UInt8]
    /// SubjectPublicKeyInfo (RFC 5280 §4.1.2.7) of the public half, in DER.
    package let publicInfo: [UInt8]

    /// Bytes of a coordinate, and of each half of a signature.
    private static let size = 32
    /// Of a SubjectPublicKeyInfo with an uncompressed point (RFC 5480 §2.2), which ends with x and y.
    private static let infoSize = 91
    private static let label = "EC PRIVATE KEY"

    /// A new key.
    package init() {
        // The failure of the generator of random numbers is the only cause.
        guard let key = Self.made() else { preconditionFailure("OpenSSL cannot make keys") }
        self = key
    }

    private static func made() -> P256Key? {
        defer { ERR_clear_error() }
        guard let key = cossl_make_p256_key() else { return nil }
        defer { EVP_PKEY_free(key) }
        return P256Key(key)
    }

    /// `nil` if this is not such a key.
    ///
    /// - Parameter encoded: ECPrivateKey, or PrivateKeyInfo (RFC 5958), in DER.
    package init?(encoded: [UInt8]) {
        guard let key = Self.with(encoded, { P256Key($0) }) else { return nil }
        self = key
    }

    /// The first private key in a text; `nil` if there is none of this kind.
    package init?(pem: String) {
        let block = PEM.blocks(in: pem).first { $0.label == Self.label || $0.label == "PRIVATE KEY" }
        guard let block else { return nil }
        self.init(encoded: block.content)
    }

    private init?(_ key: OpaquePointer) {
        guard EVP_PKEY_get_base_id(key) == EVP_PKEY_EC,
            let encoded = Self.bytes({ i2d_PrivateKey(key, $0) }),
            let publicInfo = Self.bytes({ i2d_PUBKEY(key, $0) }),
            publicInfo.count == Self.infoSize, PublicKey(subjectPublicKeyInfo: publicInfo)?.kind == .p256
        else { return nil }
        (self.encoded, self.publicInfo) = (encoded, publicInfo)
    }

    /// The key as PEM (RFC 7468), which ends with a line end.
    package var pem: String { PEM.text(Self.label, encoded) }

    /// The coordinates of the public point, 32 bytes each, big-endian.
    package var point: (x: [UInt8], y: [UInt8]) {
        (Array(publicInfo.suffix(2 * Self.size).prefix(Self.size)), Array(publicInfo.suffix(Self.size)))
    }

    /// A signature with SHA-256, as certificates have it (Ecdsa-Sig-Value, RFC 3279 §2.2.3).
    package func signature(of message: [UInt8]) -> [UInt8] {
        let made = Self.with(encoded) { key -> [UInt8]? in
            guard let context = EVP_MD_CTX_new() else { return nil }
            defer { EVP_MD_CTX_free(context) }
            var count = 0
            guard EVP_DigestSignInit(context, nil, EVP_sha256(), nil, key) == 1,
                EVP_DigestSign(context, nil, &count, message, message.count) == 1
            else { return nil }
            var signature = [UInt8](repeating: 0, count: count)
            guard EVP_DigestSign(context, &signature, &count, message, message.count) == 1 else { return nil }
            return Array(signature.prefix(count))
        }
        // `init` has used the key.
        guard let made else { preconditionFailure("OpenSSL cannot sign") }
        return made
    }

    /// A signature with SHA-256, as tokens have it: 64 bytes, two big-endian numbers (RFC 7518 §3.4).
    package func plainSignature(of message: [UInt8]) -> [UInt8] {
        guard let numbers = DER.content(0x30, of: signature(of: message)[...])?.0,
            let (first, rest) = DER.content(0x02, of: numbers),
            let (second, _) = DER.content(0x02, of: rest)
        else { preconditionFailure("OpenSSL has made no signature") }
        return Self.padded(first) + Self.padded(second)
    }

    private static func padded(_ number: ArraySlice<UInt8>) -> [UInt8] {
        let digits = number.drop { $0 == 0 }
        return [UInt8](repeating: 0, count: size - digits.count) + digits
    }

    private static func with<Result>(_ encoded: [UInt8], _ body: (OpaquePointer) -> Result?) -> Result? {
        // Errors left in the queue would look like errors of the next TLS connection that this thread serves.
        defer { ERR_clear_error() }
        return encoded.withUnsafeBufferPointer { bytes in
            var next = bytes.baseAddress
            guard let key = d2i_AutoPrivateKey(nil, &next, bytes.count) else { return nil }
            defer { EVP_PKEY_free(key) }
            return body(key)
        }
    }

    /// What a function of OpenSSL writes, which returns only the number of bytes for no place.
    private static func bytes(_ write: (UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>?) -> Int32) -> [UInt8]? {
        let count = write(nil)
        guard count > 0 else { return nil }
        var bytes = [UInt8](repeating: 0, count: Int(count))
        let written = bytes.withUnsafeMutableBufferPointer { buffer in
            var next = buffer.baseAddress
            return write(&next)
        }
        return written == count ? bytes : nil
    }
}
