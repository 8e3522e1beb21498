/// What an upload is to a concatenation (tus 1.0.0, concatenation): made of other uploads, or made for that.
package struct Concatenation: Sendable, Equatable {
    package enum Role: Sendable, Equatable {
        /// Holds bytes for final uploads; it becomes no media, and expires also when it is complete.
        case partial
        /// Gets its bytes from these partial uploads, in this order, once all are complete; it takes no others.
        ///
        /// One may be named several times.
        case final(parts: [UploadID])
    }

    package var role: Role
    /// The text exactly as the client sent it (`Upload-Concat`).
    package var raw: String

    package init(_ role: Role, raw: String) {
        self.role = role
        self.raw = raw
    }

    /// What a final upload is made of; `nil` for a partial one.
    package var parts: [UploadID]? {
        if case .final(let parts) = role { parts } else { nil }
    }
}
