internal import Foundation
package import Signing
package import UploadCore

/// Who may have credentials made.
package struct TokenMinter: Sendable {
    let credentials: [SigningCredentials]
    private let key: String
    private let actions: Set<ObjectAction>
    private let limits: KeyLimits

    /// - Parameters:
    ///   - credentials: Pairs of keys that stand for `key`, as `StaticKeyPair.all`.
    ///   - key: Its id is that of the issuer; what it may do itself, sessions may at most.
    package init(_ credentials: [SigningCredentials], _ key: APIKey) {
        self.credentials = credentials
        self.key = key.id
        actions = ObjectAction.allowed(to: key)
        limits = key.limits
    }

    /// What a request gets: all that the key may do, as far as the policy of the request lets it.
    ///
    /// - Returns: `nil` if the key is not for the user whom the request names, or for those only whom it does not name.
    func grant(for request: TokenRequest, at now: Date) -> ObjectGrant? {
        let subject = request.name.isEmpty ? nil : request.name
        guard limits.allows(subject: subject) else { return nil }
        let grant = ObjectGrant(
            upload: Grant(
                id: "grant_" + UploadID.generate(at: now).text,
                issuer: key,
                subject: subject,
                expiresAt: now.addingTimeInterval(Double(request.seconds)),
                issuedAt: now
            ),
            bucket: nil,
            keys: .all,
            actions: actions
        ).narrowed(to: limits)
        return request.policy.map { grant.narrowed(by: $0) } ?? grant
    }
}
