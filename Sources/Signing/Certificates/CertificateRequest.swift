package import Digests

/// A request for a certificate (PKCS #10, RFC 2986).
package enum CertificateRequest {
    /// Without a subject: the names are in `subjectAltName`, where the authority looks for them (RFC 8555 §7.4).
    ///
    /// - Parameters:
    ///   - names: Names of hosts, ASCII; not empty.
    ///   - key: Becomes that of the certificate.
    /// - Returns: The request in DER.
    package static func encoded(for names: [String], key: P256Key) -> [UInt8] {
        let extensions = DER.sequence([CertificateText.alternativeNames(names)])
        // extensionRequest: 1.2.840.113549.1.9.14 (RFC 2985 §5.4.2).
        let attribute = DER.sequence([
            DER.identifier([0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x09, 0x0E]), DER.value(0x31, extensions),
        ])
        let noSubject = DER.sequence([])
        let content = DER.sequence([DER.integer([0]), noSubject, key.publicInfo, DER.value(0xA0, attribute)])
        return CertificateText.signed(content, by: key)
    }
}
