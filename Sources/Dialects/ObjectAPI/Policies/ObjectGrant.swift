package import UploadCore

/// Who may do what with which objects: what the credentials of a session stand for.
package struct ObjectGrant: Sendable, Equatable {
    /// Which keys of the bucket it is for.
    package enum Keys: Sendable, Equatable {
        case only(String)
        /// All that begin with it.
        case within(KeyPrefix)
        /// The whole bucket; said as such, and never what an empty text comes to.
        case all
    }

    /// Id, subject, limits, expiry and metadata of the uploads that it admits.
    package var upload: Grant
    /// As clients name it, with the app id if it is one of COS; `nil` for any.
    package var bucket: String?
    package var keys: Keys
    package var actions: Set<ObjectAction>
    /// Each must allow what is done, too.
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

    /// The same, as far as `policy` allows it, too.
    package func narrowed(by policy: SessionPolicy) -> ObjectGrant {
        var narrowed = self
        narrowed.policies.append(policy)
        return narrowed
    }

    /// Whether it allows this request; limits of size and type of `upload` are for whoever takes the upload.
    ///
    /// A listing is allowed for a prefix within the grant. Of a grant for one key that is the key itself, and since other
    /// keys may begin with it, whoever lists leaves out what `covers` denies.
    package func allows(_ access: ObjectAccess) -> Bool {
        guard actions.contains(access.action), covers(bucket: access.bucket) else { return false }
        if !access.action.isForBucket || access.action.isListing {
            guard covers(access.key) else { return false }
        }
        return policies.allSatisfy { $0.allows(access) }
    }

    package func allows(_ action: ObjectAction, bucket: String, key: String) -> Bool {
        allows(ObjectAccess(action, bucket: bucket, key: key))
    }

    package func covers(bucket other: String) -> Bool {
        bucket.map { $0.utf8.elementsEqual(other.utf8) } ?? true
    }

    /// Whether a key is among those of the grant; by bytes, since two keys that look the same may be two keys.
    package func covers(_ key: String) -> Bool {
        switch keys {
        case .only(let only): key.utf8.elementsEqual(only.utf8)
        case .within(let prefix): key.utf8.starts(with: prefix.text.utf8)
        case .all: true
        }
    }
}
