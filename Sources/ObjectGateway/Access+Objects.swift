internal import HTTPWire
internal import ObjectGrants
internal import ObjectStore
internal import RESTKit
internal import Signing
internal import UploadModel

extension Access {
    /// Checks that an app user with a token mints only for the user's own objects at this gateway.
    ///
    /// Their keys begin with the encoded name of the user (`KeyPrefix.init(subject:)`).
    ///
    /// - Parameters:
    ///   - key: The key; an API key of the app is always allowed.
    ///   - bucket: As clients name it.
    ///   - keys: The keys of the objects.
    ///   - vendor: Whose clients the credentials are for.
    ///   - isDirect: Whether they are for a real cloud.
    ///   - buckets: The buckets for uploads (`object.buckets`).
    /// - Throws: `Problem` 403.
    func checkUser(
        _ key: APIKey,
        bucket: String,
        _ keys: ObjectGrant.Keys,
        for vendor: Vendor,
        isDirect: Bool,
        among buckets: [String]
    ) throws(Problem) {
        guard key.user != nil else { return }
        guard !isDirect else { throw Self.notDirect }
        var name = bucket[...]
        // Clients of COS add an app id.
        if vendor == .tencent, let hyphen = name.lastIndex(of: "-"), Int64(name[name.index(after: hyphen)...]) != nil {
            name = name[..<hyphen]
        }
        let isOwn =
            key.limits.onlySubject.flatMap { KeyPrefix(subject: $0) }.map { prefix in
                switch keys {
                case .only(let key): key.utf8.starts(with: prefix.text.utf8)
                case .within(let inner): inner.text.utf8.starts(with: prefix.text.utf8)
                case .all: false
                }
            } ?? false
        guard isOwn, buckets.contains(String(name)) else {
            throw Problem(
                403,
                "forbidden",
                "your token is for keys in the buckets for uploads that begin with the name of its user and a slash"
            )
        }
    }
}
