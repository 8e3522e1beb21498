internal import Foundation
package import Signing
package import UploadCore

/// Who may have credentials made.
package struct TokenMinter: Sendable {
    let credentials: [SigningCredentials]
    private let key: String
    private let actions: Set<ObjectAction>

    /// - Parameters:
    ///   - credentials: Pairs of keys that stand for `key`, as `StaticKeyPair.all`.
    ///   - key: Its id is that of the issuer; what it may do itself, sessions may at most.
    package init(_ credentials: [SigningCredentials], _ key: APIKey) {
        self.credentials = credentials
        self.key = key.id
        actions = ObjectAction.allowed(to: key)
    }

    /// What a request gets: all that the key may do, as far as the policy of the request lets it.
    func grant(for request: TokenRequest, at now: Date) -> ObjectGrant {
        let grant = ObjectGrant(
            upload: Grant(
                id: "grant_" + UploadID.generate(at: now).text,
                issuer: key,
                subject: request.name.isEmpty ? nil : request.name,
                expiresAt: now.addingTimeInterval(Double(request.seconds))
            ),
            bucket: nil,
            keys: .prefix(""),
            actions: actions
        )
        return request.policy.map { grant.narrowed(by: $0) } ?? grant
    }
}
