package import Foundation
package import Signing

/// Temporary credentials with which a client of an object store signs requests.
package struct SessionCredentials: Sendable {
    package let accessKeyID: String
    package let secretAccessKey: SecretAccessKey
    /// The encrypted grant; at most `CredentialIssuer.maximumTokenByteCount` bytes, in the URL-safe Base64 alphabet.
    package let sessionToken: String
    /// In whole seconds.
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
    /// Whether it has expired, but within the grace period.
    package let isInGrace: Bool
}

/// Why the credentials of a request are invalid.
package enum CredentialFailure: Error, Sendable, Equatable {
    /// Temporary credentials need a token.
    case noToken
    /// The token was not made with this master secret, or was modified.
    case invalidToken
    /// The token belongs to another access key id.
    case otherAccessKeyID
    /// It expired at this time.
    case expired(Date)
}

/// A grant that is too large for a token.
package struct GrantTooLong: Error, Sendable, Equatable {
    /// Size the token would have, in bytes.
    package let byteCount: Int
    package let maximumByteCount: Int

    package var message: String {
        "The session token would have \(byteCount) bytes, more than the \(maximumByteCount) that clients accept; "
            + "shorten the policy, the metadata or the key."
    }
}
