internal import Bytes
internal import Digests

/// The public half of a pair of keys, in the form that the clients of each vendor know.
///
/// All are letters and digits, but for the dot of Alibaba Cloud's: the signatures of the vendors set them off by `/`, `:`
/// and commas.
package enum AccessKeyID {
    /// A new id for credentials that expire, with 80 random bits or more.
    ///
    /// | dialect | form |
    /// |---|---|
    /// | s3 | `ASIA` and 16 characters |
    /// | oss | `STS.` and 24 characters |
    /// | cos | `AKID` and 32 characters |
    package static func generate(_ dialect: ObjectDialect) -> String {
        let (prefix, byteCount) = form(dialect)
        return prefix + Base32.encode(SecureRandom.bytes(byteCount))
    }

    /// Whose clients an id of a session was made for; `nil` for what `generate` does not give.
    package static func dialect(of id: String) -> ObjectDialect? {
        for dialect in ObjectDialect.allCases {
            let (prefix, byteCount) = form(dialect)
            guard id.hasPrefix(prefix), Base32.decode(id.dropFirst(prefix.count))?.count == byteCount else { continue }
            return dialect
        }
        return nil
    }

    private static func form(_ dialect: ObjectDialect) -> (prefix: String, byteCount: Int) {
        switch dialect {
        case .s3: ("ASIA", 10)
        case .oss: ("STS.", 15)
        case .cos: ("AKID", 20)
        }
    }
}
