internal import Bytes
package import Foundation
internal import Signing
package import UploadModel

/// The issuers whose tokens admit app users.
package struct AppUserIssuers: AppUserTokens {
    /// By the name in tokens.
    private let issuers: ExactNames<AppUserIssuer>
    /// In place of API keys.
    private let names: Set<String>

    init(_ issuers: [AppUserIssuer]) {
        var byName = ExactNames<AppUserIssuer>()
        for issuer in issuers.reversed() { byName[issuer.rules.issuer] = issuer }
        self.issuers = byName
        names = Set(
            issuers.flatMap { issuer in
                issuer.rules.audiences.map { IdentityName.text(issuer.rules.issuer, audience: $0) }
            }
        )
    }

    package func key(in text: String, at now: Date) async throws(UploadError) -> APIKey {
        let token: JSONWebToken
        do throws(JSONWebToken.Malformed) {
            token = try JSONWebToken(text)
        } catch {
            throw .invalidCredential("This token \(error.reason).")
        }
        // Tokens of other issuers must not cause a fetch of keys.
        guard case .string(let name)? = token.claims["iss"], let issuer = issuers[name] else {
            throw .invalidCredential("The issuer of this token is not trusted here (jwt.issuers).")
        }
        return try await issuer.key(for: token, at: now)
    }

    /// Whether the issuer and audience with this name in place of an API key are trusted.
    package func trusts(_ id: String) -> Bool { names.contains(id) }
}
