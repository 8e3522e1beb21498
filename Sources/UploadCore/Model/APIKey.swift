package import Foundation

/// What a key may be used for.
package enum Scope: String, Sendable, CaseIterable, Codable {
    /// Ask for signatures, credentials and tokens.
    case mint
    /// Create uploads, and end those that are not complete.
    case upload
    /// See uploads and media, and download.
    case read
    /// Delete completed media, and let sessions delete objects.
    case delete
    /// Everything.
    case admin
}

/// An API key of an app, without its secret.
package struct APIKey: Sendable, Equatable {
    /// Public name of the key, such as `key_4q6…`.
    package let id: String
    package var name: String
    package var scopes: Set<Scope>
    package var createdAt: Date
    package var expiresAt: Date?
    package var revokedAt: Date?
    /// SHA-256 of the secret text.
    package var digest: [UInt8]
    /// Comes from the configuration (`SLUICE_ADMIN_KEY`), not from `keys create`.
    package var isPreset: Bool
    /// Whose uploads, and which objects, it is for.
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
