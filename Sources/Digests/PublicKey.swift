internal import COpenSSL

/// A public key that verifies signatures, by OpenSSL.
///
/// Stored as SubjectPublicKeyInfo (RFC 5280 §4.1.2.7) in DER; the OpenSSL pointers live within one call.
package struct PublicKey: Sendable {
    private enum Scheme: Sendable {
        /// RSASSA-PKCS1-v1_5 with SHA-256 (RFC 8017 §8.2).
        case rsa
        /// ECDSA on P-256 with SHA-256 (FIPS 186-5).
        case p256
    }

    /// Bytes of a coordinate of P-256, and of each half of a signature.
    private static let p256ByteCount = 32

    private let encoded: [UInt8]
    private let scheme: Scheme

    /// An RSA key of 2048 to 8192 bits: shorter keys are not safe (RFC 7518 §3.3), longer ones cost too much to verify
    /// with.
    ///
    /// `nil` if the numbers are not such a key.
    ///
    /// - Parameters:
    ///   - modulus: Big-endian.
    ///   - exponent: Big-endian; odd, 3 to 2^32.
    package init?(rsaModulus modulus: [UInt8], exponent: [UInt8]) {
        let modulus = modulus.drop { $0 == 0 }
        let exponent = exponent.drop { $0 == 0 }
        guard (256...1024).contains(modulus.count), (1...4).contains(exponent.count), let last = exponent.last,
            last % 2 == 1, exponent.count > 1 || last >= 3
        else { return nil }
        let numbers = DER.sequence([DER.integer(modulus), DER.integer(exponent)])
        // rsaEncryption, with no parameters (RFC 3279 §2.3.1).
        let algorithm = DER.sequence([
            [0x06, 0x09, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x01], [0x05, 0x00],
        ])
        self.init(DER.sequence([algorithm, DER.bits(numbers)]), .rsa)
    }

    /// A P-256 key; `nil` if the coordinates are not a point on the curve.
    ///
    /// - Parameters:
    ///   - x: 32 bytes, big-endian.
    ///   - y: 32 bytes, big-endian.
    package init?(p256X x: [UInt8], y: [UInt8]) {
        guard x.count == Self.p256ByteCount, y.count == Self.p256ByteCount else { return nil }
        // id-ecPublicKey and secp256r1 (RFC 5480 §2.1.1).
        let algorithm = DER.sequence([
            [0x06, 0x07, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01],
            [0x06, 0x08, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07],
        ])
        self.init(DER.sequence([algorithm, DER.bits([0x04] + x + y)]), .p256)
    }

    private init?(_ encoded: [UInt8], _ scheme: Scheme) {
        self.encoded = encoded
        self.scheme = scheme
        let isKey = withKey { _ in true }
        guard isKey else { return nil }
    }

    /// Whether `signature` is a valid signature of `message`.
    ///
    /// - Parameters:
    ///   - signature: RSA: as long as the modulus. P-256: 64 bytes, two big-endian numbers (RFC 7518 §3.4).
    ///   - message: The signed bytes, not hashed yet.
    /// - Returns: `false` also for a signature of a wrong length.
    package func verifies(_ signature: [UInt8], of message: [UInt8]) -> Bool {
        var signature = signature
        if scheme == .p256 {
            guard signature.count == 2 * Self.p256ByteCount else { return false }
            signature = DER.sequence([
                DER.integer(signature.prefix(Self.p256ByteCount)), DER.integer(signature.suffix(Self.p256ByteCount)),
            ])
        }
        return withKey { key in
            guard let context = EVP_MD_CTX_new() else { return false }
            defer { EVP_MD_CTX_free(context) }
            return EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, key) == 1
                && EVP_DigestVerify(context, signature, signature.count, message, message.count) == 1
        }
    }

    private func withKey(_ body: (OpaquePointer) -> Bool) -> Bool {
        // Errors left in the queue would look like errors of the next TLS connection that this thread serves.
        defer { ERR_clear_error() }
        return encoded.withUnsafeBufferPointer { bytes in
            var next = bytes.baseAddress
            guard let key = d2i_PUBKEY(nil, &next, bytes.count) else { return false }
            defer { EVP_PKEY_free(key) }
            return body(key)
        }
    }
}

/// The few value types of the Distinguished Encoding Rules (X.690) that public keys and signatures need.
private enum DER {
    /// A non-negative integer, big-endian.
    static func integer(_ bytes: some Collection<UInt8>) -> [UInt8] {
        let digits = Array(bytes.drop { $0 == 0 })
        // A leading one bit would make the number negative.
        let isClear = digits.first.map { $0 < 0x80 } ?? false
        return value(0x02, (isClear ? [] : [0]) + digits)
    }

    static func bits(_ bytes: [UInt8]) -> [UInt8] { value(0x03, [0] + bytes) }

    static func sequence(_ values: [[UInt8]]) -> [UInt8] { value(0x30, Array(values.joined())) }

    private static func value(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        let count = content.count
        let length: [UInt8] =
            if count < 0x80 { [UInt8(count)] } else if count < 0x100 { [0x81, UInt8(count)] } else {
                [0x82, UInt8(count >> 8), UInt8(count & 0xFF)]
            }
        return [tag] + length + content
    }
}
