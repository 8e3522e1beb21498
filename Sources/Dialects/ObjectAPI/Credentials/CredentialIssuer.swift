package import Foundation
package import Signing
internal import UploadCore

/// Makes credentials out of grants, and grants out of the credentials of requests, without keeping either.
///
/// The secret key follows from the access key id, and the session token is the grant with that id, sealed: whoever has the
/// master secret can check a request that nobody told them of.
package struct CredentialIssuer: Sendable {
    /// Longer ones are not made: vendors promise their clients that tokens are not longer.
    package static let maximumTokenByteCount = 4096

    /// What follows from one master secret.
    private struct Generation: Sendable {
        let tokens: SealingKeyRing
        let secrets: SecretAccessKeyDerivation

        init(_ master: MasterSecret) {
            tokens = SealingKeyRing(master: master, purpose: "object session token v1")
            secrets = SecretAccessKeyDerivation(master: master, purpose: "object session secret v1")
        }
    }

    /// Of the secret with which new credentials are made.
    private let current: Generation
    private let others: [Generation]

    package init(master: MasterSecret) {
        let generations = master.each.map { Generation($0) }
        current = generations[0]
        others = Array(generations.dropFirst())
    }

    /// Credentials for `grant`, which last as long as it, without fractions of a second.
    ///
    /// - Parameters:
    ///   - grant: What they allow.
    ///   - dialect: Whose clients will have them.
    /// - Returns: New ones with each call.
    /// - Throws: If the grant does not fit into a token.
    package func mint(_ grant: ObjectGrant, for dialect: ObjectDialect) throws(GrantTooLong) -> SessionCredentials {
        let id = AccessKeyID.generate(dialect)
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

    /// What the credentials of a request stand for; their signature is not looked at here.
    ///
    /// - Parameters:
    ///   - accessKeyID: That the request names.
    ///   - token: That it brings.
    ///   - now: The time of the request.
    ///   - grace: Seconds after the end in which they are still taken, as for completing what began in time.
    /// - Returns: The grant, and the secret key that the signature must have been made with.
    /// - Throws: Which of them is missing or wrong; before that it is not known whether they expired.
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
