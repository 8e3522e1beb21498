internal import Bytes

/// How each header field with a vendor's prefix is handled: executed, ignored without harm, or refused.
///
/// The tables have all fields that the vendors document. A field that is in none is judged by the words of its name:
/// see `ruleOfUnknown`.
struct FieldTable: Sendable {
    enum Rule: Sendable, Equatable {
        /// The field takes effect when the request is checked or executed.
        case executed
        /// Takes effect with one of these values, compared case-insensitively if `anyCase`.
        case only(Set<String>, otherwise: Refusal, anyCase: Bool = false)
        /// Takes effect with `true` and none with `false`, in any case; with anything else nobody knows what is meant.
        case boolean
        /// The account that must own the bucket.
        case account
        /// Ignored, because the client cannot notice a difference: hints, retries, who pays.
        case ignored
        case refused(Refusal)
    }

    /// Why a field is refused.
    enum Refusal: Sendable, Equatable {
        /// The feature is not supported: `NotImplemented`.
        case notKept
        /// Not supported, with a hint what to do instead.
        case because(String)
        /// An error with its default message.
        case error(ObjectErrorCode)
    }

    /// In lower case.
    let prefix: String
    /// By name without the prefix, in lower case.
    let rules: [String: Rule]
    /// By name prefix, for names that are not in `rules`.
    let families: [(prefix: String, rule: Rule)]

    private init(_ prefix: String, _ rules: [String: Rule], families: [(prefix: String, rule: Rule)]) {
        self.prefix = prefix
        self.rules = rules
        self.families = families
    }

    /// The rule for a field.
    ///
    /// - Parameter name: In lower case, with the prefix.
    /// - Returns: That of the tables, else by the words of the name.
    func rule(for name: String) -> Rule {
        let own = String(name.dropFirst(prefix.count))
        return rules[own] ?? families.first { own.hasPrefix($0.prefix) }?.rule ?? Self.ruleOfUnknown(own)
    }

    /// The rule for a field that is in no table.
    ///
    /// New versions of SDKs send new hints, digests, notifications and traces, which the vendors' stores ignore. A field
    /// is refused if one of the words of its name is about who may do what, how or where bytes are kept, from where they
    /// come, a condition, or another effect that a client would rely on.
    ///
    /// - Parameter own: The name of a field that is in no table, without the prefix.
    /// - Returns: `.refused` or `.ignored`.
    private static func ruleOfUnknown(_ own: String) -> Rule {
        own.split(separator: "-").contains { effects.contains(String($0)) } ? .refused(.notKept) : .ignored
    }

    private static let effects: Set<String> = [
        // Who may do what.
        "access", "acl", "ac", "allow", "deny", "expected", "forbid", "grant", "owner", "ownership", "permission",
        "policy", "private", "public", "restrict", "role",
        // How and where bytes are kept, and for how long.
        "append", "archive", "az", "bucket", "class", "compress", "customer", "delete", "encrypt", "encrypted",
        "encryption", "expiration", "expire", "expires", "hold", "key", "kms", "legal", "lifecycle", "lock", "object",
        "offset", "persistent", "position", "replication", "restore", "retain", "retention", "sse", "storage", "tier",
        "ttl", "version", "versioning", "worm", "write",
        // From where they come, and what else the object is.
        "alias", "copy", "directive", "fetch", "link", "metadata", "mirror", "move", "origin", "redirect", "rename",
        "source", "symlink", "tag", "tagging", "tags", "target", "website",
        // Conditions, and work to be done.
        "callback", "condition", "convert", "if", "match", "operations", "process", "range", "transcode", "transform",
    ]

    /// Checks a field that has the prefix.
    ///
    /// - Parameters:
    ///   - name: In lower case, with the prefix.
    ///   - value: The value, unchanged.
    /// - Throws: The error of a refused field.
    func check(_ name: String, _ value: String) throws(ObjectError) {
        switch rule(for: name) {
        case .executed, .ignored: break
        case .only(let values, let refusal, let anyCase):
            guard values.contains(anyCase ? value.lowercasedASCII() : value) else { throw refusal.error(name) }
        case .boolean:
            guard ["true", "false"].contains(value.lowercasedASCII()) else {
                throw .argument(name, value, "The value of \(name) must be true or false.")
            }
        case .account:
            guard value.utf8.count == 12, ObjectParameters.number(value) != nil else {
                throw ObjectError(.invalidBucketOwner)
            }
            guard value == Self.accountID else { throw ObjectError(.accessDenied) }
        case .refused(let refusal): throw refusal.error(name)
        }
    }

    /// The account that owns all buckets: the one that the token service reports.
    static let accountID = "000000000000"
}

extension FieldTable.Refusal {
    /// The error for a field.
    ///
    /// - Parameter name: In lower case.
    /// - Returns: The error response.
    fileprivate func error(_ name: String) -> ObjectError {
        let text =
            switch self {
            case .notKept: "The header \(name) requests a feature that this server does not support: leave it out."
            case .because(let text): text
            case .error(let code): code.usualMessage
            }
        if case .error(let code) = self { return ObjectError(code) }
        return ObjectError(.notImplemented, text, details: [ObjectError.Detail("Header", name)])
    }
}

// MARK: The tables

extension FieldTable {
    private static let acl = Refusal.error(.accessControlListNotSupported)
    private static let storageClass = Refusal.error(.invalidStorageClass)

    /// Amazon S3 API Reference, all operations; version 4 signatures cover all of these fields.
    static let aws = FieldTable(
        "x-amz-",
        [
            // Signature, and how the content is signed.
            "algorithm": .executed, "content-sha256": .executed, "credential": .executed, "date": .executed,
            "decoded-content-length": .executed, "expires": .executed, "security-token": .executed,
            "signature": .executed, "signedheaders": .executed, "trailer": .executed,
            // Properties of the object and conditions on it.
            "copy-source": .executed, "copy-source-if-match": .executed, "copy-source-if-modified-since": .executed,
            "copy-source-if-none-match": .executed, "copy-source-if-unmodified-since": .executed,
            "copy-source-range": .executed, "max-parts": .executed, "metadata-directive": .executed,
            "mp-object-size": .executed, "object-attributes": .executed, "part-number-marker": .executed,
            "sdk-checksum-algorithm": .executed, "tagging": .executed, "tagging-directive": .executed,
            "acl": .only(["private", "bucket-owner-full-control"], otherwise: acl),
            "object-ownership": .only(["BucketOwnerEnforced"], otherwise: acl),
            "storage-class": .only(["STANDARD"], otherwise: storageClass),
            "bucket-object-lock-enabled": .only(["false"], otherwise: .notKept, anyCase: true),
            // No effect here: requester pays, object lock, storage classes, and information about clients and proxies.
            "api-version": .ignored, "bypass-governance-retention": .ignored, "cf-id": .ignored, "id-2": .ignored,
            "mfa": .ignored, "optional-object-attributes": .ignored, "region-set": .ignored, "request-id": .ignored,
            "request-payer": .ignored, "te": .ignored, "transition-default-minimum-object-size": .ignored,
            "user-agent": .ignored,
            // Conditions on the owner of a bucket.
            "expected-bucket-owner": .account, "source-expected-bucket-owner": .account,
            // Known but not supported.
            "if-match-last-modified-time": .refused(.notKept),
            "if-match-size": .refused(.notKept),
            "website-redirect-location": .refused(.notKept), "write-offset-bytes": .refused(.notKept),
        ],
        families: [
            // Unknown checksum algorithms are refused where the content is checked.
            ("checksum-", .executed), ("meta-", .executed), ("grant-", .refused(acl)),
            ("object-lock-", .refused(.notKept)), ("server-side-encryption", .refused(.notKept)),
            ("copy-source-server-side-", .refused(.notKept)),
        ]
    )

    /// "Common request headers", and those of all object and bucket operations, OSS documentation.
    static let aliyun = FieldTable(
        "x-oss-",
        [
            // Signature.
            "additional-headers": .executed, "content-sha256": .executed, "credential": .executed, "date": .executed,
            "expires": .executed, "security-token": .executed, "signature": .executed, "signature-version": .executed,
            // Properties of the object and conditions on it.
            "callback": .executed, "callback-var": .executed, "content-type": .executed, "copy-source": .executed,
            "copy-source-if-match": .executed, "copy-source-if-modified-since": .executed,
            "copy-source-if-none-match": .executed, "copy-source-if-unmodified-since": .executed,
            "copy-source-range": .executed, "forbid-overwrite": .boolean, "metadata-directive": .executed,
            "range-behavior": .executed, "tagging": .executed, "tagging-directive": .executed,
            "acl": .only(ownerOnly, otherwise: acl), "object-acl": .only(ownerOnly, otherwise: acl),
            "storage-class": .only(["standard"], otherwise: storageClass, anyCase: true),
            "complete-all": .only(["no"], otherwise: .because(namesParts("x-oss-")), anyCase: true),
            // Compared with the content of an object or a part.
            "hash-crc64ecma": .executed, "hash-sha1": .executed,
            // No effect here: requester pays, object lock, traffic limits.
            "allow-same-action-overlap": .ignored, "bypass-governance-retention": .ignored, "request-id": .ignored,
            "request-payer": .ignored, "traffic-limit": .ignored, "user-agent": .ignored,
            // Sent by the VOD SDK for browsers: what it says is in the UserData of the media; the MD5 of the first 1,024
            // bytes, or nothing.
            "md5": .ignored, "notification": .ignored,
            // Known but not supported.
            "symlink-target": .refused(.because(noLinks)),
        ],
        families: [
            ("meta-", .executed), ("grant-", .refused(acl)), ("server-side-", .refused(.notKept)),
            // They restrict who may use a presigned URL and from where; ignoring them would allow more than intended.
            ("ac-", .refused(.notKept)), ("object-worm-", .refused(.notKept)),
        ]
    )

    /// "Common request headers", and those of all object and bucket operations, COS documentation.
    static let tencent = FieldTable(
        "x-cos-",
        [
            "date": .executed, "security-token": .executed,
            // Properties of the object and conditions on it.
            "copy-source": .executed, "copy-source-if-match": .executed, "copy-source-if-modified-since": .executed,
            "copy-source-if-none-match": .executed, "copy-source-if-unmodified-since": .executed,
            "copy-source-range": .executed, "forbid-overwrite": .boolean, "metadata-directive": .executed,
            "tagging": .executed, "tagging-directive": .executed,
            "acl": .only(ownerOnly, otherwise: acl),
            "storage-class": .only(["standard"], otherwise: storageClass, anyCase: true),
            // Compared with the content of an object or a part.
            "content-sha1": .executed, "hash-crc64ecma": .executed,
            // No effect here: traffic limits and the SDKs' retry marks.
            "request-id": .ignored, "sdk-retry": .ignored, "trace-id": .ignored, "traffic-limit": .ignored,
            "user-agent": .ignored,
            // Known but not supported.
            "callback": .refused(.because(noCallbacks("x-cos-callback"))),
            "callback-var": .refused(.because(noCallbacks("x-cos-callback-var"))),
            "complete-all": .only(["no"], otherwise: .because(namesParts("x-cos-")), anyCase: true),
            "symlink-target": .refused(.because(noLinks)),
        ],
        families: [
            ("meta-", .executed), ("grant-", .refused(acl)), ("server-side-", .refused(.notKept)),
            ("copy-source-server-side-", .refused(.notKept)),
        ]
    )

    private static let ownerOnly: Set<String> = ["default", "private", "bucket-owner-full-control"]
    private static let noLinks = "Symbolic links are not supported."

    private static func noCallbacks(_ name: String) -> String {
        "Callbacks are not supported: leave \(name) out."
    }

    private static func namesParts(_ prefix: String) -> String {
        "List the parts, and leave \(prefix)complete-all out."
    }
}
