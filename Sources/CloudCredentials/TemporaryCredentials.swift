package import Foundation
package import Signing
package import XMLText

/// Credentials that a token service gave, with a token and an end.
package struct TemporaryCredentials: Sendable {
    package let value: SigningCredentials
    package let expiresAt: Date

    /// `nil` if one of them is missing, or can not stand in a header field, or is no time.
    ///
    /// - Parameters:
    ///   - id: The access key id.
    ///   - secret: Its secret.
    ///   - token: What requests bring beside the signature.
    ///   - expiration: `2026-01-02T03:04:05Z`, with or without fractions of a second.
    package init?(id: String?, secret: String?, token: String?, expiration: String?) {
        guard token != nil, let end = expiration.flatMap(FetchedCredentials.date),
            let fetched = FetchedCredentials(id: id, secret: secret, token: token, .until(end))
        else { return nil }
        value = fetched.value
        expiresAt = end
    }

    /// Those in an answer of AWS's token service, whose form is the same for all of its calls; `nil` if there are none.
    ///
    /// - Parameters:
    ///   - document: The root of the answer.
    ///   - action: The call, such as `AssumeRole`.
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
