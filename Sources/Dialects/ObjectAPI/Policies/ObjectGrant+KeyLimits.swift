package import UploadCore

extension ObjectGrant {
    /// The same, as far as the API key that mints it may go.
    ///
    /// Whose it is, is for whoever mints it.
    package func narrowed(to limits: KeyLimits) -> ObjectGrant {
        guard limits.isForObjectsOnly else { return self }
        let prefixes = limits.prefixes.isEmpty ? [""] : limits.prefixes
        // In the words of COS, in which the resource of a listing is the prefix that it asks for.
        return narrowed(
            by: SessionPolicy(
                dialect: .cos,
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
    /// Whether all objects that a grant may name are among those that the key is for.
    package func allows(bucket: String, keys: ObjectGrant.Keys) -> Bool {
        switch keys {
        case .only(let key): allows(bucket: bucket, key: key)
        case .within(let prefix): allows(bucket: bucket, key: prefix.text)
        case .all: allows(bucket: bucket, key: "")
        }
    }
}
