package import Foundation

/// Revokes everything that was minted before a given time.
package struct Revocation: Sendable, Equatable {
    /// The affected user; `nil` for all users.
    package var subject: String?
    /// What was minted at this time or later remains valid.
    package var issuedBefore: Date
    package var createdAt: Date

    package init(subject: String?, issuedBefore: Date, createdAt: Date) {
        self.subject = subject
        self.issuedBefore = issuedBefore
        self.createdAt = createdAt
    }
}

/// Revocations made since a given time.
package struct Revocations: Sendable, Equatable {
    /// Ids of API keys.
    package var keys: [String]
    /// At most one per subject, and one for all users.
    package var bulk: [Revocation]

    package init(keys: [String] = [], bulk: [Revocation] = []) {
        self.keys = keys
        self.bulk = bulk
    }
}
