package import Foundation

/// What a key may be used for.
package enum Scope: String, Sendable, CaseIterable, Codable {
    /// Requests signatures, credentials and tokens.
    case mint
    /// Creates uploads, and ends those that are not complete.
    case upload
    /// Lists and downloads uploads and media.
    case read
    /// Deletes completed media, and allows sessions to delete objects.
    case delete
    /// Allows everything.
    case admin
}

/// An API key of an app, without its secret.
package struct APIKey: Sendable, Equatable {
    /// Public id of the key, such as `key_4q6…`.
    package let id: String
    package var name: String
    package var scopes: Set<Scope>
    package var createdAt: Date
    package var expiresAt: Date?
    package var revokedAt: Date?
    /// SHA-256 of the secret text.
    package var digest: [UInt8]
    /// Whether it comes from the configuration (`SLUICE_ADMIN_KEY`) instead of `keys create`.
    package var isPreset: Bool
    /// The users, buckets and prefixes to which the key is limited.
    package var limits: KeyLimits

    package init(
        id: String,
        name: String,
        scopes: Set<Scope>,
        createdAt: Date,
        expiresAt: Date? = nil,
        revokedAt: Date? = nil,
        digest: [UInt8],
        isPreset: Bool = false,
        limits: KeyLimits = KeyLimits()
    ) {
        self.id = id
        self.name = name
        self.scopes = scopes
        self.createdAt = createdAt
        self.expiresAt = expiresAt
        self.revokedAt = revokedAt
        self.digest = digest
        self.isPreset = isPreset
        self.limits = limits
    }

    package func allows(_ scope: Scope) -> Bool { scopes.contains(scope) || scopes.contains(.admin) }

    package func isUsable(at now: Date) -> Bool {
        revokedAt == nil && expiresAt.map { now < $0 } ?? true
    }
}
