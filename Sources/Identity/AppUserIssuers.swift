internal import Bytes
internal import Foundation
internal import Signing
internal import UploadModel

/// The issuers whose tokens admit app users.
package struct AppUserIssuers: Sendable {
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

    /// What fetches the keys of an issuer, if it was trusted with the same place of keys.
    ///
    /// So that what was fetched is not fetched again.
    func fetchedKeys(of issuer: UserIssuerSettings) -> IdentityKeys? {
        guard let known = issuers[issuer.issuer], known.settings.keys == issuer.keys,
            known.settings.authorities == issuer.authorities, case .fetched(let keys) = known.keys
        else { return nil }
        return keys
    }

    /// - Throws: As `AppUserTokens.key`.
    func key(in text: String, at now: Date) async throws(UploadError) -> APIKey {
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
    func trusts(_ id: String) -> Bool { names.contains(id) }
}
