/// A digest that Sluice computes; the raw value is the name that tus and the REST API use.
package enum DigestAlgorithm: String, CaseIterable, Sendable {
    /// RFC 1321; against accidents only.
    case md5
    /// FIPS 180-4; against accidents only, and in HMAC.
    case sha1
    /// FIPS 180-4.
    case sha256
    /// FIPS 180-4.
    case sha512
    /// The Castagnoli polynomial of RFC 3720 §12.1, as four bytes, most significant first; against accidents only.
    case crc32c

    /// Bytes of the result.
    package var byteCount: Int {
        switch self {
        case .md5: 16
        case .sha1: 20
        case .sha256: 32
        case .sha512: 64
        case .crc32c: 4
        }
    }
}
