/// A digest that Sluice computes.
///
/// The raw value is its name in tus and in the REST API.
package enum DigestAlgorithm: String, CaseIterable, Sendable {
    /// RFC 1321; not safe against deliberate changes.
    case md5
    /// FIPS 180-4; not safe against deliberate changes, except in HMAC.
    case sha1
    /// FIPS 180-4.
    case sha256
    /// FIPS 180-4.
    case sha512
    /// The Castagnoli polynomial of RFC 3720 §12.1, as four bytes, most significant first; not safe against deliberate
    /// changes.
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
