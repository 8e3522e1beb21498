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
    /// The secret before the last rotation, if it was kept for a while.
    package var previous: PreviousSecret?
    /// When the key was last used, up to some minutes ago.
    package var lastUsedAt: Date?
    /// The user, if it is the token of an app user instead of a recorded key.
    package var user: AppUser?

    /// A secret that a rotation replaced.
    package struct PreviousSecret: Sendable, Equatable {
        /// SHA-256 of the secret text.
        package let digest: [UInt8]
        /// It is accepted before this time.
        package let validUntil: Date

        package init(digest: [UInt8], validUntil: Date) {
            self.digest = digest
            self.validUntil = validUntil
        }
    }

    package init(
        id: String,
        name: String,
        scopes: Set<Scope>,
        createdAt: Date,
        expiresAt: Date? = nil,
        revokedAt: Date? = nil,
        digest: [UInt8],
        isPreset: Bool = false,
        limits: KeyLimits = KeyLimits(),
        previous: PreviousSecret? = nil,
        lastUsedAt: Date? = nil,
        user: AppUser? = nil
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
        self.previous = previous
        self.lastUsedAt = lastUsedAt
        self.user = user
    }

    /// The digests of the secrets that are accepted, the newest first.
    package func digests(at now: Date) -> [[UInt8]] {
        if let previous, now < previous.validUntil { [digest, previous.digest] } else { [digest] }
    }

    /// Whether a secret with this digest is accepted.
    package func accepts(_ digest: [UInt8], at now: Date) -> Bool {
        if digest == self.digest { return true }
        guard let previous else { return false }
        return now < previous.validUntil && digest == previous.digest
    }

    package func allows(_ scope: Scope) -> Bool { scopes.contains(scope) || scopes.contains(.admin) }

    package func isUsable(at now: Date) -> Bool { status(at: now) == .usable }

    package enum Status: String, Sendable {
        case usable, expired, revoked
    }

    package func status(at now: Date) -> Status {
        if revokedAt != nil { return .revoked }
        return expiresAt.map { now < $0 } ?? true ? .usable : .expired
    }

    /// Why it cannot get another secret, for people: what follows the key's id in a sentence.
    package var whyNotRotated: String {
        if revokedAt != nil { return "was revoked; create another" }
        if isPreset { return "comes from the setting adminKey; change it there" }
        return "has expired; create another"
    }
}
