internal import Foundation
internal import ObjectGrants
package import Signing
package import UploadCore

/// A caller who may mint credentials.
package struct TokenMinter: Sendable {
    let credentials: [SigningCredentials]
    private let key: String
    private let actions: Set<ObjectAction>
    private let limits: KeyLimits

    /// - Parameters:
    ///   - credentials: Key pairs that stand for `key`, as in `StaticKeyPair.all`.
    ///   - key: The issuer of the sessions, and the most that they may do.
    package init(_ credentials: [SigningCredentials], _ key: APIKey) {
        self.credentials = credentials
        self.key = key.id
        actions = ObjectAction.allowed(to: key)
        limits = key.limits
    }

    /// The grant for a request: everything the key may do, restricted by the policy of the request.
    ///
    /// - Returns: `nil` if the key is limited to other users than the one in the request, or the request names none.
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
