package import Foundation
package import Signing
internal import UploadModel

/// Converts grants to credentials, and the credentials of requests back to grants, without storing either.
///
/// The secret key is derived from the access key id. The session token is the grant with that id, encrypted and
/// authenticated. So any node with the master secret can verify a request without shared state.
package struct CredentialIssuer: Sendable {
    /// Maximum length of a token; vendors promise their clients no longer ones.
    package static let maximumTokenByteCount = 4096

    /// The keys derived from one master secret.
    private struct Generation: Sendable {
        let tokens: SealingKeyRing
        let secrets: SecretAccessKeyDerivation

        init(_ master: MasterSecret) {
            tokens = SealingKeyRing(master: master, purpose: "object session token v1")
            secrets = SecretAccessKeyDerivation(master: master, purpose: "object session secret v1")
        }
    }

    /// Derived from the secret that new credentials use.
    private let current: Generation
    private let others: [Generation]

    package init(master: MasterSecret) {
        let generations = master.each.map { Generation($0) }
        current = generations[0]
        others = Array(generations.dropFirst())
    }

    /// Creates credentials for `grant` with the same expiry, in whole seconds.
    ///
    /// - Parameters:
    ///   - grant: What the credentials allow.
    ///   - vendor: The vendor whose clients use them.
    /// - Returns: New credentials with every call.
    /// - Throws: If the grant does not fit into a token.
    package func mint(_ grant: ObjectGrant, for vendor: Vendor) throws(GrantTooLong) -> SessionCredentials {
        let id = AccessKeyID.generate(vendor)
        let token = current.tokens.seal(SessionToken.encode(grant, accessKeyID: id)).text
        guard token.utf8.count <= Self.maximumTokenByteCount else {
            throw GrantTooLong(byteCount: token.utf8.count, maximumByteCount: Self.maximumTokenByteCount)
        }
        return SessionCredentials(
            accessKeyID: id,
            secretAccessKey: current.secrets.secret(for: id.utf8),
            sessionToken: token,
            expiresAt: SessionToken.wholeSeconds(grant.upload.expiresAt)
        )
    }

    /// Returns the grant behind the credentials of a request; it does not verify the signature.
    ///
    /// - Parameters:
    ///   - accessKeyID: The id in the request.
    ///   - token: The token in the request.
    ///   - now: The time of the request.
    ///   - grace: Seconds after expiry during which they are still accepted, for completing work that began in time.
    /// - Returns: The grant, and the secret key that must have made the signature.
    /// - Throws: Which part is missing or wrong. Expiry is checked last.
    package func open(
        accessKeyID: String,
        token: String?,
        at now: Date,
        grace: TimeInterval = 0
    ) throws(CredentialFailure) -> Session {
        guard let token, !token.isEmpty else { throw .noToken }
        guard let sealed = SealedToken(token) else { throw .invalidToken }
        for generation in [current] + others {
            guard let plain = generation.tokens.open(sealed) else { continue }
            guard let (grant, id) = SessionToken.decode(plain) else { throw .invalidToken }
            guard id.utf8.elementsEqual(accessKeyID.utf8) else { throw .otherAccessKeyID }
            let expiresAt = grant.upload.expiresAt
            guard now < expiresAt.addingTimeInterval(grace) else { throw .expired(expiresAt) }
            return Session(
                grant: grant,
                secretAccessKey: generation.secrets.secret(for: id.utf8),
                isInGrace: now >= expiresAt
            )
        }
        throw .invalidToken
    }
}
