internal import ObjectGrants
internal import ObjectStore
internal import RESTKit
internal import UploadCore

extension Access {
    /// Checks that a key may act for this app user and these objects.
    ///
    /// - Throws: `Problem` 403.
    func check(_ key: APIKey, subject: String?, bucket: String, _ keys: ObjectGrant.Keys) throws(Problem) {
        guard key.limits.allows(subject: subject), key.limits.allows(bucket: bucket, keys: keys) else {
            throw Self.outsideLimits(of: key)
        }
    }
}
