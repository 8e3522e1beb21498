internal import CloudCalls
internal import Foundation
internal import ObjectGrants
package import Signing
package import UploadModel

/// A caller who may mint credentials.
package struct TokenMinter: Sendable {
    private let credentials: [SigningCredentials]
    private let noteUse: @Sendable () -> Void
    private let key: APIKey

    /// - Parameters:
    ///   - credentials: Key pairs that stand for `key`, as in `StaticKeyPair.all`.
    ///   - key: The issuer of the sessions, and the most that they may do.
    ///   - noteUse: Called for each verified signature.
    package init(
        _ credentials: [SigningCredentials],
        _ key: APIKey,
        noteUse: @escaping @Sendable () -> Void = {}
    ) {
        self.credentials = credentials
        self.noteUse = noteUse
        self.key = key
    }

    /// Whose limits hold.
    var issuer: String { key.id }

    /// What the nonces of its calls may take.
    var nonceShares: UsedNonces.Shares { key.actsForAll ? .all : .key(key.id) }

    /// Verifies a signature with the key's pairs.
    ///
    /// - Throws: The error for the first pair if none verifies it.
    func verify(
        by check: (SigningCredentials) throws(RequestSignatureFailure) -> Void
    ) throws(RequestSignatureFailure) {
        try credentials.verified(by: check)
        noteUse()
    }

    /// The grant for a request: everything the key may do, restricted by the policy of the request.
    ///
    /// - Returns: `nil` if the key is limited to other users than the one in the request, or the request names none.
    func grant(for request: TokenRequest, at now: Date) -> ObjectGrant? {
        let subject = request.name.isEmpty ? nil : request.name
        let actions = ObjectAction.allowed(to: key)
        let rights = ObjectAction.rights(of: actions, for: subject, at: .limitsOfKey)
        guard key.refusal(minting: rights) == nil else { return nil }
        let grant = ObjectGrant(
            upload: Grant(
                id: "grant_" + UploadID.generate(at: now).text,
                issuer: key.id,
                subject: subject,
                expiresAt: key.lastExpiry(now.addingTimeInterval(Double(request.seconds)), at: now),
                issuedAt: now
            ),
            bucket: nil,
            keys: .all,
            actions: actions
        ).narrowed(to: key.limits)
        return request.policy.map { grant.narrowed(by: $0) } ?? grant
    }
}
