package import Foundation

/// That what was minted before a moment is over.
package struct Revocation: Sendable, Equatable {
    /// Whose; `nil` for everybody's.
    package var subject: String?
    /// What was minted then or later stays.
    package var issuedBefore: Date
    package var createdAt: Date

    package init(subject: String?, issuedBefore: Date, createdAt: Date) {
        self.subject = subject
        self.issuedBefore = issuedBefore
        self.createdAt = createdAt
    }
}

/// What was revoked since a moment.
package struct Revocations: Sendable, Equatable {
    /// Ids of API keys.
    package var keys: [String]
    /// At most one for each subject, and one for everybody.
    package var bulk: [Revocation]

    package init(keys: [String] = [], bulk: [Revocation] = []) {
        self.keys = keys
        self.bulk = bulk
    }
}
