package import Foundation

/// A user of the app, who sends a token of an identity provider and has no API key.
///
/// The token stands in for an API key (`APIKey.user`), whose only subject is the user. It also limits the user's uploads.
package final class AppUser: Sendable, Equatable {
    /// When the token was issued, for comparison with revocations.
    package let issuedAt: Date
    /// Maximum size of one upload in bytes; `nil` applies the server's limit.
    package let maximumBytes: Int64?
    /// Allowed declared media types, `type/subtype` or `type/*`; empty allows any.
    package let contentTypes: [String]
    /// Metadata of every upload, which the user cannot change.
    package let metadata: [String: String]
    /// Longest lifetime of minted tokens and credentials in seconds.
    package let mintedLifetime: TimeInterval

    package init(
        issuedAt: Date,
        maximumBytes: Int64? = nil,
        contentTypes: [String] = [],
        metadata: [String: String] = [:],
        mintedLifetime: TimeInterval
    ) {
        self.issuedAt = issuedAt
        self.maximumBytes = maximumBytes
        self.contentTypes = contentTypes
        self.metadata = metadata
        self.mintedLifetime = mintedLifetime
    }

    package static func == (one: AppUser, other: AppUser) -> Bool {
        one.issuedAt == other.issuedAt && one.maximumBytes == other.maximumBytes
            && one.contentTypes == other.contentTypes && one.metadata == other.metadata
            && one.mintedLifetime == other.mintedLifetime
    }

    /// A limit that not everything minted can express.
    package enum Limit: Sendable, CaseIterable {
        case maximumBytes, contentTypes, metadata
    }

    /// The limits that the user has.
    package var limits: Set<Limit> {
        Set(
            Limit.allCases.filter { limit in
                switch limit {
                case .maximumBytes: maximumBytes != nil
                case .contentTypes: !contentTypes.isEmpty
                case .metadata: !metadata.isEmpty
                }
            }
        )
    }

    fileprivate func limit(_ grant: inout Grant) throws(UploadError) {
        grant.maximumBytes = [grant.maximumBytes, maximumBytes].compactMap { $0 }.min()
        guard let types = MediaTypePattern.common(grant.contentTypes, contentTypes) else {
            throw UploadError(
                .forbidden(scope: nil),
                "Your token does not allow these content types; it allows \(contentTypes.joined(separator: ", "))."
            )
        }
        grant.contentTypes = types
        grant.metadata.replaceIgnoringCase(with: metadata)
    }
}

/// Verifies the tokens of app users.
package protocol AppUserTokens: Sendable {
    /// Another number after each change of what is accepted, or of the limits of users.
    var version: Int { get }

    /// Verifies a token.
    ///
    /// - Parameters:
    ///   - token: A JSON Web Token in compact form, as the client sent it.
    ///   - now: The time.
    /// - Returns: The key that the token stands for, with a `user`; its only subject is the user, its id names issuer
    ///   and audience (`RevocationList` asks whether they are still trusted).
    /// - Throws: `.unauthenticated`, `.forbidden`; `.unavailable` if the keys of the issuer cannot be fetched.
    func key(in token: String, at now: Date) async throws(UploadError) -> APIKey
}

extension APIKey {
    /// Applies the limits of an app user to what is minted or uploaded with the user's token.
    ///
    /// An API key has no such limits: its app chooses them.
    ///
    /// - Throws: `.forbidden` if the grant is for content types that are all outside the limits.
    package func limit(_ grant: inout Grant) throws(UploadError) {
        try user?.limit(&grant)
    }

    /// Checks that an app user has no limits besides those that something minted can express.
    ///
    /// - Throws: `.forbidden`.
    package func requireExpressible(_ limits: Set<AppUser.Limit>, in what: String) throws(UploadError) {
        guard let user, !user.limits.isSubset(of: limits) else { return }
        throw UploadError(
            .forbidden(scope: nil),
            "Your token has limits that \(what) cannot express; ask the app's backend for one."
        )
    }
}
