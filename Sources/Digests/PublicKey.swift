internal import COpenSSL

/// A signature algorithm with a public key.
package enum SignatureScheme: Sendable {
    /// RSASSA-PKCS1-v1_5 with SHA-256 (RFC 8017 §8.2).
    case rsaPKCS1
    /// RSASSA-PSS with SHA-256, MGF1 with SHA-256 and a salt of 32 bytes (RFC 8017 §8.1, RFC 7518 §3.5).
    case rsaPSS
    /// ECDSA on P-256 with SHA-256 (FIPS 186-5).
    case p256
    /// Ed25519 (RFC 8032 §5.1).
    case ed25519
}

/// A public key that verifies signatures, by OpenSSL.
///
/// Stored as SubjectPublicKeyInfo (RFC 5280 §4.1.2.7) in DER; the OpenSSL pointers live within one call.
package struct PublicKey: Sendable {
    package enum Kind: Sendable {
        /// Of 2048 to 8192 bits.
        case rsa
        case p256
        case ed25519
    }

    /// Bytes of a coordinate of P-256, and of each half of a signature.
    private static let p256ByteCount = 32
    private static let ed25519ByteCount = 32
    /// Shorter RSA keys are not safe (RFC 7518 §3.3), longer ones cost too much to verify with.
    private static let rsaBits: ClosedRange<Int32> = 2048...8192

    package let kind: Kind
    private let encoded: [UInt8]

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

    /// An Ed25519 key; `nil` unless it has 32 bytes (RFC 8032 §5.1.5).
    package init?(ed25519 bytes: [UInt8]) {
        guard bytes.count == Self.ed25519ByteCount else { return nil }
        // id-Ed25519 (RFC 8410 §3).
        let algorithm = DER.sequence([[0x06, 0x03, 0x2B, 0x65, 0x70]])
        self.init(DER.sequence([algorithm, DER.bits(bytes)]), .ed25519)
    }

    /// A key as SubjectPublicKeyInfo in DER.
    ///
    /// `nil` unless it is RSA of 2048 to 8192 bits, P-256 or Ed25519.
    package init?(subjectPublicKeyInfo bytes: [UInt8]) {
        var found: (Kind, [UInt8])?
        _ = Self.withKey(bytes) { key in
            found = Self.kind(of: key).flatMap { kind in Self.encoded(key).map { (kind, $0) } }
            return found != nil
        }
        guard let (kind, encoded) = found else { return nil }
        self.init(encoded, kind)
    }

    /// The key in a certificate in DER (RFC 5280 §4.1); the certificate itself is not verified.
    package init?(certificate bytes: [UInt8]) {
        defer { ERR_clear_error() }
        let info = bytes.withUnsafeBufferPointer { buffer -> [UInt8]? in
            var next = buffer.baseAddress
            guard let certificate = d2i_X509(nil, &next, buffer.count) else { return nil }
            defer { X509_free(certificate) }
            // Belongs to the certificate.
            return X509_get0_pubkey(certificate).flatMap { Self.encoded($0) }
        }
        guard let info else { return nil }
        self.init(subjectPublicKeyInfo: info)
    }

    private init?(_ encoded: [UInt8], _ kind: Kind) {
        self.encoded = encoded
        self.kind = kind
        guard Self.withKey(encoded, { _ in true }) else { return nil }
    }

    private static func kind(of key: OpaquePointer) -> Kind? {
        switch EVP_PKEY_get_base_id(key) {
        case EVP_PKEY_RSA where rsaBits.contains(EVP_PKEY_get_bits(key)): return .rsa
        case EVP_PKEY_ED25519: return .ed25519
        case EVP_PKEY_EC:
            var name = [CChar](repeating: 0, count: 64)
            guard EVP_PKEY_get_group_name(key, &name, name.count, nil) == 1 else { return nil }
            return String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
                == "prime256v1" ? .p256 : nil
        default: return nil
        }
    }

    private static func encoded(_ key: OpaquePointer) -> [UInt8]? {
        let count = i2d_PUBKEY(key, nil)
        guard count > 0 else { return nil }
        var bytes = [UInt8](repeating: 0, count: Int(count))
        let written = bytes.withUnsafeMutableBufferPointer { buffer in
            var next = buffer.baseAddress
            return i2d_PUBKEY(key, &next)
        }
        return written == count ? bytes : nil
    }

    /// Whether `signature` is a valid signature of `message`.
    ///
    /// - Parameters:
    ///   - signature: RSA: as long as the modulus. P-256: 64 bytes, two big-endian numbers (RFC 7518 §3.4). Ed25519: 64
    ///     bytes.
    ///   - message: The signed bytes, not hashed yet.
    ///   - scheme: The algorithm.
    /// - Returns: `false` also for a signature of a wrong length, and for a scheme that is not for this kind of key.
    package func verifies(_ signature: [UInt8], of message: [UInt8], by scheme: SignatureScheme) -> Bool {
        switch (kind, scheme) {
        case (.rsa, .rsaPKCS1): return verify(signature, message, EVP_sha256())
        case (.rsa, .rsaPSS):
            return verify(signature, message, EVP_sha256()) { context in
                EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_PSS_PADDING) == 1
                    && EVP_PKEY_CTX_set_rsa_pss_saltlen(context, RSA_PSS_SALTLEN_DIGEST) == 1
            }
        case (.p256, .p256):
            guard signature.count == 2 * Self.p256ByteCount else { return false }
            let numbers = DER.sequence([
                DER.integer(signature.prefix(Self.p256ByteCount)), DER.integer(signature.suffix(Self.p256ByteCount)),
            ])
            return verify(numbers, message, EVP_sha256())
        case (.ed25519, .ed25519): return verify(signature, message, nil)
        case (.rsa, _), (.p256, _), (.ed25519, _): return false
        }
    }

    /// Verifies a signature as OpenSSL expects it; the digest is `nil` if the scheme has its own.
    private func verify(
        _ signature: [UInt8],
        _ message: [UInt8],
        _ digest: OpaquePointer?,
        configure: (OpaquePointer?) -> Bool = { _ in true }
    ) -> Bool {
        Self.withKey(encoded) { key in
            guard let context = EVP_MD_CTX_new() else { return false }
            defer { EVP_MD_CTX_free(context) }
            var parameters: OpaquePointer?
            return EVP_DigestVerifyInit(context, &parameters, digest, nil, key) == 1 && configure(parameters)
                && EVP_DigestVerify(context, signature, signature.count, message, message.count) == 1
        }
    }

    private static func withKey(_ encoded: [UInt8], _ body: (OpaquePointer) -> Bool) -> Bool {
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
