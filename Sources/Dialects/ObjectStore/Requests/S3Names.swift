internal import Bytes
package import Signing

/// Rules for names of buckets and keys.
package enum S3Names {
    /// In bytes of UTF-8 ("Naming Amazon S3 objects", Amazon S3 User Guide).
    package static let maximumKeyByteCount = 1024

    /// "General purpose bucket naming rules", Amazon S3 User Guide.
    package static func isBucket(_ name: String) -> Bool {
        let bytes = Array(name.utf8)
        guard (3...63).contains(bytes.count), let first = bytes.first, let last = bytes.last, isLetterOrDigit(first),
            isLetterOrDigit(last), bytes.allSatisfy({ isLetterOrDigit($0) || $0 == hyphen || $0 == dot }),
            !zip(bytes, bytes.dropFirst()).contains(where: { $0 == dot && $1 == dot }), !isAddress(bytes)
        else { return false }
        return !["xn--", "sthree-"].contains(where: name.hasPrefix)
            && !["-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3"].contains(where: name.hasSuffix)
    }

    /// - Throws: `InvalidBucketName`.
    package static func check(bucket: String) throws(ObjectError) {
        guard isBucket(bucket) else {
            throw ObjectError(
                .invalidBucketName,
                details: [ObjectError.Detail("BucketName", bucket.first(scalars: 63))]
            )
        }
    }

    /// Checks the name of a new bucket; existing buckets keep their names.
    ///
    /// - Throws: `InvalidBucketName`, also for a name that cannot be part of a host name, because labels must end in a
    ///   letter or digit (RFC 1123 §2.1), and for names that Amazon reserves for its documentation.
    package static func check(newBucket name: String) throws(ObjectError) {
        let labels = name.utf8.split(separator: dot, omittingEmptySubsequences: false)
        guard isBucket(name), !name.hasPrefix("amzn-s3-demo-"),
            labels.allSatisfy({ $0.first != hyphen && $0.last != hyphen })
        else {
            throw ObjectError(.invalidBucketName, details: [ObjectError.Detail("BucketName", name.first(scalars: 63))])
        }
    }

    /// - Throws: `KeyTooLongError`; `InvalidArgument` for an empty key or one with NUL, which a request line cannot
    ///   contain.
    package static func check(key: String, for vendor: Vendor = .aws) throws(ObjectError) {
        // One byte less at OSS ("Object naming", OSS documentation).
        let maximumKeyByteCount = vendor == .aliyun ? maximumKeyByteCount - 1 : maximumKeyByteCount
        guard key.utf8.count <= maximumKeyByteCount else {
            throw ObjectError(
                .keyTooLong,
                "The key is too long: use at most \(maximumKeyByteCount) bytes of UTF-8.",
                details: [
                    ObjectError.Detail("Size", String(key.utf8.count)),
                    ObjectError.Detail("MaxSizeAllowed", String(maximumKeyByteCount)),
                ]
            )
        }
        guard !key.isEmpty else { throw .argument("Key", key, "The key of an object must not be empty.") }
        guard !key.utf8.contains(0) else { throw .argument("Key", nil, "The key of an object must not contain NUL.") }
    }

    private static let hyphen = UInt8(ascii: "-")
    private static let dot = UInt8(ascii: ".")

    private static func isLetterOrDigit(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) || isDigit(byte)
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }

    /// Four dot-separated numbers, as in `192.168.5.4`.
    private static func isAddress(_ bytes: [UInt8]) -> Bool {
        let parts = bytes.split(separator: dot, omittingEmptySubsequences: false)
        return parts.count == 4 && parts.allSatisfy { (1...3).contains($0.count) && $0.allSatisfy(isDigit) }
    }
}
