internal import Signing
package import UploadModel

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

extension ObjectGrant.Keys {
    /// The objects of a bucket that these are, for the check of what a key may mint.
    package func reach(in bucket: String) -> MintedRights.Reach {
        switch self {
        case .only(let key): .objects(bucket: bucket, prefix: key)
        case .within(let prefix): .objects(bucket: bucket, prefix: prefix.text)
        case .all: .objects(bucket: bucket, prefix: "")
        }
    }
}
