package import Foundation
package import Signing
package import XMLText

/// Credentials from a token service, with a session token and an expiry.
package struct TemporaryCredentials: Sendable {
    package let value: SigningCredentials
    package let expiresAt: Date

    /// `nil` if a value is missing, cannot be sent in a header field, or is not a time.
    ///
    /// - Parameters:
    ///   - id: The access key id.
    ///   - secret: The secret access key.
    ///   - token: The session token, which requests send in addition to the signature.
    ///   - expiration: `2026-01-02T03:04:05Z`, with or without fractions of a second.
    package init?(id: String?, secret: String?, token: String?, expiration: String?) {
        guard token != nil, let end = expiration.flatMap(FetchedCredentials.date),
            let fetched = FetchedCredentials(id: id, secret: secret, token: token, .until(end))
        else { return nil }
        value = fetched.value
        expiresAt = end
    }

    /// The credentials in a response of AWS's token service; all its actions use the same format.
    ///
    /// `nil` if there are none.
    ///
    /// - Parameters:
    ///   - document: The root of the response.
    ///   - action: The action, such as `AssumeRole`.
    package init?(_ document: XMLNode, of action: String) {
        let node = document.all(action + "Result").first?.all("Credentials").first
        self.init(
            id: node?["AccessKeyId"],
            secret: node?["SecretAccessKey"],
            token: node?["SessionToken"],
            expiration: node?["Expiration"]
        )
    }
}
