package import Digests

/// A certificate with a key of its own, which nobody trusts.
package struct SelfSignedCertificate: Sendable {
    /// In DER.
    package let encoded: [UInt8]
    package let key: P256Key

    /// For a handshake by which an authority validates a name: TLS-ALPN-01 (RFC 8737 §3).
    ///
    /// - Parameters:
    ///   - name: ASCII.
    ///   - digest: SHA-256 of the key authorization.
    ///   - now: Unix seconds.
    package init(validating name: String, digest: [UInt8], at now: Int64) {
        self.init(
            "ACME validation",
            [CertificateText.alternativeNames([name]), CertificateText.acmeIdentifier(digest)],
            at: now
        )
    }

    /// For clients that come before there is a certificate.
    ///
    /// - Parameters:
    ///   - names: ASCII; not empty.
    ///   - now: Unix seconds.
    package init(standingInFor names: [String], at now: Int64) {
        self.init("no certificate yet", [CertificateText.alternativeNames(names)], at: now)
    }

    private init(_ subject: String, _ extensions: [[UInt8]], at now: Int64) {
        key = P256Key()
        let name = CertificateText.name(subject)
        // A day before and a week after, because clocks differ.
        let validity = DER.sequence([CertificateText.time(now - 86_400), CertificateText.time(now + 7 * 86_400)])
        let content = DER.sequence([
            // Version 3.
            DER.value(0xA0, DER.integer([2])), DER.integer(SecureRandom.bytes(16)), CertificateText.signatureAlgorithm,
            name, validity, name, key.publicInfo, DER.value(0xA3, DER.sequence(extensions)),
        ])
        encoded = CertificateText.signed(content, by: key)
    }
}
