/// The names of actions in the policies of each vendor, and what they allow.
///
/// They are compared without regard to case, and `*` and `?` stand for any characters. A name that the vendor may know but
/// that no request to Sluice is made for is not in the table, so that nobody believes it had an effect.
enum ActionNames {
    /// The actions that a name in a policy stands for; `nil` if there is none.
    static func actions(named name: String, in dialect: ObjectDialect) -> Set<ObjectAction>? {
        if name == "*" { return Set(ObjectAction.allCases) }
        let lowercased = name.lowercased()
        guard let prefix = prefixes(dialect).first(where: { lowercased.hasPrefix($0) }) else { return nil }
        let pattern = WildcardPattern(String(lowercased.dropFirst(prefix.count)))
        let found = table(dialect).filter { pattern.matches($0.key.lowercased()) }.values
        return found.isEmpty ? nil : found.reduce(into: []) { $0.formUnion($1) }
    }

    /// The names, as the vendor's own policies have them, that stand for nothing but some of these actions.
    static func names(within actions: Set<ObjectAction>, in dialect: ObjectDialect) -> [(
        name: String, actions: Set<ObjectAction>
    )] {
        table(dialect).filter { $0.value.isSubset(of: actions) }.sorted { $0.key < $1.key }
            .map { (name: prefixes(dialect)[0] + $0.key, actions: $0.value) }
    }

    /// What names begin with, in lower case; first the one that is written.
    private static func prefixes(_ dialect: ObjectDialect) -> [String] {
        switch dialect {
        case .s3: ["s3:"]
        case .oss: ["oss:"]
        case .cos: ["name/cos:", "cos:"]
        }
    }

    private static func table(_ dialect: ObjectDialect) -> [String: Set<ObjectAction>] {
        switch dialect {
        case .s3: s3
        case .oss: oss
        case .cos: cos
        }
    }

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

    /// OSS developer guide, "RAM policies": multipart calls are `PutObject`.
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

    /// COS, "Working with COS API authorization policies": an action for each request.
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
