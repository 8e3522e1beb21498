/// The role of an upload in a concatenation (tus 1.0.0, concatenation): a part, or the result.
package struct Concatenation: Sendable, Equatable {
    package enum Role: Sendable, Equatable {
        /// Holds bytes for final uploads; becomes no media, and expires even when complete.
        case partial
        /// Consists of these partial uploads, in this order, once all are complete; accepts no other bytes.
        ///
        /// A part may occur several times.
        case final(parts: [UploadID])
    }

    package var role: Role
    /// The text exactly as the client sent it (`Upload-Concat`).
    package var raw: String

    package init(_ role: Role, raw: String) {
        self.role = role
        self.raw = raw
    }

    /// The parts of a final upload; `nil` for a partial one.
    package var parts: [UploadID]? {
        if case .final(let parts) = role { parts } else { nil }
    }
}
