internal import Bytes
internal import Digests
package import Signing

/// The public half of a key pair, in the format that each vendor's clients expect.
///
/// All are alphanumeric except for a dot in Alibaba Cloud's, because the vendors' signatures delimit them with `/`, `:`
/// and commas.
package enum AccessKeyID {
    /// A new id for temporary credentials, with at least 80 random bits.
    ///
    /// | vendor | form |
    /// |---|---|
    /// | AWS | `ASIA` and 16 characters |
    /// | Alibaba Cloud | `STS.` and 24 characters |
    /// | Tencent Cloud | `AKID` and 32 characters |
    package static func generate(_ vendor: Vendor) -> String {
        let (prefix, byteCount) = forms[vendor]
        return prefix + Base32.encode(SecureRandom.bytes(byteCount))
    }

    /// The vendor for which a session's id was generated; `nil` if `generate` did not make it.
    package static func vendor(of id: String) -> Vendor? {
        for vendor in Vendor.allCases {
            let (prefix, byteCount) = forms[vendor]
            guard id.hasPrefix(prefix), Base32.decode(id.dropFirst(prefix.count))?.count == byteCount else { continue }
            return vendor
        }
        return nil
    }

    private static let forms = PerVendor<(prefix: String, byteCount: Int)>(
        aws: ("ASIA", 10),
        aliyun: ("STS.", 15),
        tencent: ("AKID", 20)
    )
}
