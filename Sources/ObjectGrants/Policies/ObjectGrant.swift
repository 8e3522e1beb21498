package import UploadModel

/// What session credentials stand for: the allowed actions and objects.
package struct ObjectGrant: Sendable, Equatable {
    /// The keys of the bucket that a grant covers.
    package enum Keys: Sendable, Equatable {
        case only(String)
        /// All keys with this prefix.
        case within(KeyPrefix)
        /// The whole bucket.
        ///
        /// It is always explicit, never the result of an empty string.
        case all
    }

    /// Id, subject, limits, expiry and metadata of the uploads it admits.
    package var upload: Grant
    /// As clients name it, with the app id for a COS bucket; `nil` for any bucket.
    package var bucket: String?
    package var keys: Keys
    package var actions: Set<ObjectAction>
    /// Every policy must allow the action as well.
    package private(set) var policies: [SessionPolicy]

    package init(
        upload: Grant,
        bucket: String?,
        keys: Keys,
        actions: Set<ObjectAction> = ObjectAction.upload,
        policies: [SessionPolicy] = []
    ) {
        self.upload = upload
        self.bucket = bucket
        self.keys = keys
        self.actions = actions
        self.policies = policies
    }

    /// This grant, further restricted by `policy`.
    package func narrowed(by policy: SessionPolicy) -> ObjectGrant {
        var narrowed = self
        narrowed.policies.append(policy)
        return narrowed
    }

    /// Whether it allows a request.
    ///
    /// The code that stores the upload enforces the limits of `upload` on size and type.
    ///
    /// A listing is allowed for a prefix within the grant. For a grant of a single key, that is the key itself. Other
    /// keys may begin with it, so the listing must omit keys that `covers` denies.
    package func allows(_ access: ObjectAccess) -> Bool {
        guard actions.contains(access.action), covers(bucket: access.bucket) else { return false }
        if !access.action.isForBucket || access.action.isListing {
            guard covers(access.key) else { return false }
        }
        return policies.allSatisfy { $0.allows(access) }
    }

    /// Whether it is for one upload to ApsaraVideo VOD: it allows one object, for a short time.
    package var isForVideoUpload: Bool { WritingRight(grantID: upload.id)?.end == .withObject }

    /// Whether it allows an action anywhere.
    package func mayAllow(_ action: ObjectAction) -> Bool {
        actions.contains(action)
            && policies.allSatisfy { policy in
                policy.statements.contains { $0.effect == .allow && $0.actions.contains(action) }
            }
    }

    package func allows(_ action: ObjectAction, bucket: String, key: String) -> Bool {
        allows(ObjectAccess(action, bucket: bucket, key: key))
    }

    package func covers(bucket other: String) -> Bool {
        bucket.map { $0.utf8.elementsEqual(other.utf8) } ?? true
    }

    /// Whether the grant covers a key.
    ///
    /// Compares bytes, because keys that look the same may differ.
    package func covers(_ key: String) -> Bool {
        switch keys {
        case .only(let only): key.utf8.elementsEqual(only.utf8)
        case .within(let prefix): key.utf8.starts(with: prefix.text.utf8)
        case .all: true
        }
    }
}
