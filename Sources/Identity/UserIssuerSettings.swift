package import Signing
package import UploadModel

/// An issuer whose tokens admit app users, as configured.
package struct UserIssuerSettings: Sendable, Equatable {
    /// Where its keys are.
    package enum Keys: Sendable, Equatable {
        /// Named by the issuer's document of OpenID Connect Discovery 1.0.
        case discovered
        /// A key set (RFC 7517 §5) at this URL.
        case at(String)
        /// A file with public keys or certificates in PEM.
        case file(String)
    }

    package var issuer = ""
    package var audiences: [String] = []
    package var keys = Keys.discovered
    /// PEM file of the certificate authorities that are trusted for the issuer.
    package var authorities: String?
    package var algorithms = Set(JSONWebAlgorithm.allCases)
    package var subjectClaim: ClaimName
    /// `nil` if it is not set, which adds nothing.
    package var subjectPrefix: String?
    package var scopes: Set<Scope> = [.upload, .read]
    /// Lists those of `scopes` that a token has.
    package var scopeClaim: ClaimName?
    package var scopePrefix = ""
    package var maximumBytes: Int64?
    package var maximumBytesClaim: ClaimName?
    package var contentTypes: [String] = []
    package var contentTypesClaim: ClaimName?
    /// Claims by name of the metadata that they become.
    package var metadata: [String: ClaimName] = [:]
    /// Seconds from `iat` to `exp`, at most.
    package var maximumLifetime: Int64 = 86_400
    /// Seconds.
    package var mintedLifetime: Int64 = 12 * 3600
    /// Seconds.
    package var leeway: Int64 = 60

    init(subjectClaim: ClaimName) { self.subjectClaim = subjectClaim }
}

/// The value of `jwt.issuers`.
package struct UserIssuerList: Sendable, Equatable {
    /// What is wrong with an entry.
    package struct Problem: Sendable, Equatable {
        /// Where it is, such as `[0].audience`.
        package let place: String
        package let message: String
    }

    /// As JSON.
    package let text: String
    /// Those without problems.
    package let issuers: [UserIssuerSettings]
    package let problems: [Problem]

    package static let none = UserIssuerList(text: "", issuers: [], problems: [])

    init(text: String, issuers: [UserIssuerSettings], problems: [Problem]) {
        self.text = text
        self.issuers = issuers
        self.problems = problems
    }
}
