internal import Bytes
internal import Signing

/// The names of actions in each vendor's policies, and what they allow.
///
/// Names are compared case-insensitively; `*` and `?` are wildcards. The table leaves out names of a vendor that have no
/// effect in Sluice. A policy with such a name is refused, because its author would rely on a rule without effect.
enum ActionNames {
    /// The actions that a name in a policy matches; `nil` if it matches none.
    static func actions(named name: String, in vendor: Vendor) -> Set<ObjectAction>? {
        if name == "*" { return Set(ObjectAction.allCases) }
        let lowercased = name.lowercasedASCII()
        if vendor == .aliyun, lowercased.hasPrefix(vodPrefix) {
            return actions(like: lowercased.dropFirst(vodPrefix.count), in: vod)
        }
        guard let prefix = prefixes[vendor].first(where: { lowercased.hasPrefix($0) }) else { return nil }
        return actions(like: lowercased.dropFirst(prefix.count), in: tables[vendor])
    }

    /// What a pattern in lower case matches.
    private static func actions(
        like pattern: Substring,
        in table: [String: Set<ObjectAction>]
    ) -> Set<ObjectAction>? {
        let pattern = WildcardPattern(String(pattern))
        let found = table.filter { pattern.matches($0.key.lowercasedASCII()) }.values
        return found.isEmpty ? nil : found.reduce(into: []) { $0.formUnion($1) }
    }

    /// The names in the vendor's own policies that allow only actions in this set.
    static func names(within actions: Set<ObjectAction>, in vendor: Vendor) -> [(
        name: String, actions: Set<ObjectAction>
    )] {
        tables[vendor].filter { $0.value.isSubset(of: actions) }.sorted { $0.key < $1.key }
            .map { (name: prefixes[vendor][0] + $0.key, actions: $0.value) }
    }

    /// Prefixes of names, in lower case; the first one is written.
    private static let prefixes = PerVendor(aws: ["s3:"], aliyun: ["oss:"], tencent: ["name/cos:", "cos:"])

    private static let tables = PerVendor(aws: s3, aliyun: oss, tencent: cos)

    /// Service Authorization Reference, "Actions, resources, and condition keys for Amazon S3"; "Multipart upload API and
    /// permissions" of the S3 user guide.
    private static let s3: [String: Set<ObjectAction>] = [
        "GetObject": [.getObject, .headObject, .copySource],
        "PutObject": [
            .putObject, .postObject, .appendObject, .createMultipartUpload, .uploadPart, .completeMultipartUpload,
        ],
        "AbortMultipartUpload": [.abortMultipartUpload],
        "ListMultipartUploadParts": [.listParts],
        "ListBucketMultipartUploads": [.listMultipartUploads],
        "ListBucket": [.listObjects, .headBucket],
        "DeleteObject": [.deleteObject],
        "GetBucketLocation": [.getBucketLocation],
    ]

    /// OSS developer guide, "RAM policies": multipart requests count as `PutObject`.
    private static let oss: [String: Set<ObjectAction>] = [
        "GetObject": [.getObject, .headObject, .copySource],
        "PutObject": [
            .putObject, .postObject, .appendObject, .createMultipartUpload, .uploadPart, .completeMultipartUpload,
        ],
        "AbortMultipartUpload": [.abortMultipartUpload],
        "ListParts": [.listParts],
        "ListMultipartUploads": [.listMultipartUploads],
        "ListObjects": [.listObjects],
        "DeleteObject": [.deleteObject],
        "GetBucketInfo": [.headBucket],
        "GetBucketLocation": [.getBucketLocation],
    ]

    private static let vodPrefix = "vod:"

    /// ApsaraVideo VOD, "RAM authorization": the names of its calls.
    private static let vod = ObjectAction.allCases.reduce(into: [String: Set<ObjectAction>]()) { table, action in
        if let name = action.videoCall { table[name] = [action] }
    }

    /// COS, "Working with COS API authorization policies": one action per request.
    private static let cos: [String: Set<ObjectAction>] = [
        "GetObject": [.getObject, .copySource],
        "HeadObject": [.headObject],
        "PutObject": [.putObject],
        "PostObject": [.postObject],
        "AppendObject": [.appendObject],
        "InitiateMultipartUpload": [.createMultipartUpload],
        "UploadPart": [.uploadPart],
        "UploadPartCopy": [.uploadPart],
        "CompleteMultipartUpload": [.completeMultipartUpload],
        "AbortMultipartUpload": [.abortMultipartUpload],
        "ListParts": [.listParts],
        "ListMultipartUploads": [.listMultipartUploads],
        "GetBucket": [.listObjects],
        "HeadBucket": [.headBucket],
        "DeleteObject": [.deleteObject],
    ]
}
