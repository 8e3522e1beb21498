internal import Bytes
internal import Digests

/// What certificates and requests for certificates have in common (RFC 5280), in DER.
enum CertificateText {
    /// ecdsa-with-SHA256, with no parameters (RFC 5758 §3.2).
    static let signatureAlgorithm = DER.sequence([
        DER.identifier([0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x04, 0x03, 0x02])
    ])

    /// `subjectAltName` with names of hosts (RFC 5280 §4.2.1.6).
    ///
    /// - Parameters:
    ///   - names: ASCII.
    ///   - isCritical: As it must be where there is no subject.
    /// - Returns: An extension.
    static func alternativeNames(_ names: [String], isCritical: Bool = false) -> [UInt8] {
        let list = DER.sequence(names.map { DER.value(0x82, Array($0.utf8)) })
        return `extension`([0x55, 0x1D, 0x11], isCritical: isCritical, list)
    }

    /// `acmeIdentifier`, which is critical (RFC 8737 §3): 1.3.6.1.5.5.7.1.31.
    ///
    /// - Parameter digest: SHA-256 of the key authorization.
    /// - Returns: An extension.
    static func acmeIdentifier(_ digest: [UInt8]) -> [UInt8] {
        `extension`([0x2B, 0x06, 0x01, 0x05, 0x05, 0x07, 0x01, 0x1F], isCritical: true, DER.octets(digest))
    }

    private static func `extension`(_ identifier: [UInt8], isCritical: Bool, _ value: [UInt8]) -> [UInt8] {
        DER.sequence([DER.identifier(identifier)] + (isCritical ? [[0x01, 0x01, 0xFF]] : []) + [DER.octets(value)])
    }

    /// A Name with a commonName alone.
    static func name(_ text: String) -> [UInt8] {
        let attribute = DER.sequence([DER.identifier([0x55, 0x04, 0x03]), DER.value(0x0C, Array(text.utf8))])
        return DER.sequence([DER.value(0x31, attribute)])
    }

    /// A time in Unix seconds, from 1950 to 2049 (RFC 5280 §4.1.2.5.1).
    static func time(_ unixSeconds: Int64) -> [UInt8] {
        let (days, second) = CivilCalendar.split(unixSeconds)
        let date = CivilCalendar.date(fromDays: days)
        let parts = [date.year % 100, date.month, date.day, second / 3600, second / 60 % 60, second % 60]
        let text = parts.map { $0 < 10 ? "0\($0)" : "\($0)" }.joined() + "Z"
        // A four-digit year outside of those.
        guard (1950...2049).contains(date.year) else {
            return DER.value(0x18, Array(("\(date.year / 100)" + text).utf8))
        }
        return DER.value(0x17, Array(text.utf8))
    }

    /// What is signed, the algorithm and the signature.
    static func signed(_ content: [UInt8], by key: P256Key) -> [UInt8] {
        DER.sequence([content, signatureAlgorithm, DER.bits(key.signature(of: content))])
    }
}
