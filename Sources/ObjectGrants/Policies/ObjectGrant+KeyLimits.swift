internal import Signing
package import UploadCore

extension ObjectGrant {
    /// This grant, restricted to the limits of the API key that mints it.
    ///
    /// The caller sets the subject.
    package func narrowed(to limits: KeyLimits) -> ObjectGrant {
        guard limits.isForObjectsOnly else { return self }
        let prefixes = limits.prefixes.isEmpty ? [""] : limits.prefixes
        // In COS terms, where the resource of a listing is the requested prefix.
        return narrowed(
            by: SessionPolicy(
                vendor: .tencent,
                statements: [
                    SessionPolicy.Statement(
                        effect: .allow,
                        actions: Set(ObjectAction.allCases).subtracting(ObjectAction.ofBucketAlone),
                        resources: limits.buckets.flatMap { bucket in
                            prefixes.map { WildcardPattern("\(bucket)/\($0)*") }
                        },
                        conditions: []
                    ),
                    SessionPolicy.Statement(
                        effect: .allow,
                        actions: ObjectAction.ofBucketAlone,
                        resources: limits.buckets.map { WildcardPattern("\($0)/*") },
                        conditions: []
                    ),
                ]
            )
        )
    }
}

extension ObjectAction {
    fileprivate static let ofBucketAlone: Set<ObjectAction> = [.headBucket, .getBucketLocation]
}

extension KeyLimits {
    /// Whether the key's limits cover all objects of a grant.
    package func allows(bucket: String, keys: ObjectGrant.Keys) -> Bool {
        switch keys {
        case .only(let key): allows(bucket: bucket, key: key)
        case .within(let prefix): allows(bucket: bucket, key: prefix.text)
        case .all: allows(bucket: bucket, key: "")
        }
    }
}
