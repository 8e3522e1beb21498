package import Foundation
package import Signing

/// What a client of an object store signs its requests with for a while.
package struct SessionCredentials: Sendable {
    package let accessKeyID: String
    package let secretAccessKey: SecretAccessKey
    /// The grant, sealed; at most `CredentialIssuer.maximumTokenByteCount` bytes, of the URL-safe alphabet of Base64.
    package let sessionToken: String
    /// Whole seconds.
    package let expiresAt: Date

    package var signing: SigningCredentials {
        SigningCredentials(
            accessKeyID: accessKeyID,
            secretAccessKey: secretAccessKey.text,
            sessionToken: sessionToken
        )
    }
}

/// What the credentials of a request stand for.
package struct Session: Sendable {
    package let grant: ObjectGrant
    package let secretAccessKey: SecretAccessKey
    /// It is over, but not longer than the grace that was asked for.
    package let isInGrace: Bool
}

/// Why the credentials of a request are none.
package enum CredentialFailure: Error, Sendable, Equatable {
    /// Credentials that expire come with a token.
    case noToken
    /// This server, or those with the same master secret, did not make the token, or it was changed.
    case invalidToken
    /// The token is that of another access key id.
    case otherAccessKeyID
    /// It was valid until then.
    case expired(Date)
}

/// A grant says too much for a token.
package struct GrantTooLong: Error, Sendable, Equatable {
    /// Bytes that the token would have.
    package let byteCount: Int
    package let maximumByteCount: Int

    package var message: String {
        "The session token would have \(byteCount) bytes, more than the \(maximumByteCount) that clients take; "
            + "shorten the policy, the metadata or the key."
    }
}
