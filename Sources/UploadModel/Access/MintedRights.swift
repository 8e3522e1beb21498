package import Foundation

/// What a credential can do that is about to be minted, in the terms of API keys.
package struct MintedRights: Sendable, Equatable {
    /// Where the credential applies.
    package enum Reach: Sendable, Equatable {
        /// Uploads and media that are no objects.
        case uploads
        /// Objects of a bucket whose keys begin with a prefix; an empty one stands for all.
        case objects(bucket: String, prefix: String)
        /// Whatever the key reaches itself: the credential carries the key's limits.
        case limitsOfKey
    }

    /// What it can do to uploads, media and objects that it did not begin itself; empty for beginning uploads only.
    package var scopes: Set<Scope>
    package var subject: String?
    package var reach: Reach
    /// Whether it concerns all subjects, whatever `subject` is.
    package var concernsAll: Bool

    package init(_ scopes: Set<Scope> = [], subject: String?, reach: Reach, concernsAll: Bool = false) {
        self.scopes = scopes
        self.subject = subject
        self.reach = reach
        self.concernsAll = concernsAll
    }
}

/// Why a key may not mint a credential.
package enum MintRefusal: Error, Sendable, Equatable {
    /// The key lacks these scopes.
    case scopes(Set<Scope>)
    /// The credential would reach beyond the key's limits.
    case limits
}

extension APIKey {
    /// Whether the key may mint a credential: it must be able to do itself what the credential can do.
    ///
    /// Every route that mints asks this, whatever it mints.
    ///
    /// - Returns: `nil` if it may. Scopes come first, so that a request learns of all its wrong fields at once.
    package func refusal(minting rights: MintedRights) -> MintRefusal? {
        let missing = rights.scopes.filter { !allows($0) }
        if !missing.isEmpty { return .scopes(missing) }
        if rights.concernsAll, !actsForAll { return .limits }
        guard limits.allows(subject: rights.subject) else { return .limits }
        switch rights.reach {
        case .uploads: return limits.isForObjectsOnly ? .limits : nil
        case .limitsOfKey: return nil
        case .objects(let bucket, let prefix):
            guard limits.allows(bucket: bucket, key: prefix) else { return .limits }
            // An object's key does not tell whose it is, unless it begins with the name of its subject.
            guard isBoundToSubjects, !rights.scopes.isEmpty else { return nil }
            let own = rights.subject.flatMap { KeyPrefix(subject: $0) }
            return own.map { prefix.utf8.starts(with: $0.text.utf8) } ?? false ? nil : .limits
        }
    }

    /// Whether the key may do what concerns all subjects: it has no limits.
    package var actsForAll: Bool { limits.isEmpty }

    /// Whether only its subjects limit the key, and no bucket or prefix does.
    package var isBoundToSubjects: Bool { !limits.subjects.isEmpty && !limits.isForObjectsOnly }

    /// Ends what is minted no later than the key, and applies the limits of an app user.
    ///
    /// - Throws: `.forbidden` if the grant is for content types that are all outside the user's limits.
    package func limit(minted grant: inout Grant, at now: Date) throws(UploadError) {
        grant.expiresAt = lastExpiry(grant.expiresAt, at: now)
        try limit(&grant)
    }

    /// The earlier of a time and the end of what is handed out with this key, in whole seconds as signatures have them: its own
    /// expiry; for an app user, `mintedLifetime` from now.
    ///
    /// What an app user mints may outlive the user's token, which lasts minutes. Every place that hands out a credential or a
    /// link asks this, or `limit(minted:at:)`.
    ///
    /// - Parameters:
    ///   - time: The wanted end.
    ///   - now: The time.
    /// - Returns: The end.
    package func lastExpiry(_ time: Date, at now: Date) -> Date {
        let end = user.map { now.addingTimeInterval($0.mintedLifetime) } ?? expiresAt
        guard let end, end < time else { return time }
        return Date(timeIntervalSince1970: end.timeIntervalSince1970.rounded(.down))
    }

    /// When what is handed out now must end; `nil` if the key sets no end.
    package func end(ofMintedAt now: Date) -> Date? {
        let end = lastExpiry(.distantFuture, at: now)
        return end == .distantFuture ? nil : end
    }
}
