package import Foundation

/// A record of a dialect that is neither an upload nor media, such as a session of an SDK or a used signature.
package struct DialectRecord: Sendable, Equatable {
    /// What it is, with the name of the dialect, such as `tencent session`.
    package let kind: String
    /// Unique within the kind, compared byte by byte.
    package let key: String
    /// JSON of the dialect, in which U+0000 is an escape.
    package var text: String
    /// 1 when inserted, and one more with each change.
    package var version: Int64
    package var createdAt: Date
    /// `nil` for one that never expires.
    package var expiresAt: Date?
    /// By which the record is found; `nil` for a kind whose records are found by their keys only.
    ///
    /// They are written with the record, and not read back.
    package var terms: [DialectTerm]?

    package init(
        kind: String,
        key: String,
        text: String,
        version: Int64 = 1,
        createdAt: Date,
        expiresAt: Date? = nil
    ) {
        self.kind = kind
        self.key = key
        self.text = text
        self.version = version
        self.createdAt = createdAt
        self.expiresAt = expiresAt
    }

    /// Refuses a record with U+0000: SQLite takes texts only up to there, and PostgreSQL would sort them differently.
    ///
    /// - Throws: `.invalidRequest`.
    package func checkTexts() throws(UploadError) {
        if !Self.canBeKey(key) || ([kind, text] + (terms ?? []).map(\.text)).contains(where: { $0.utf8.contains(0) }) {
            throw UploadError(.invalidRequest, "A record cannot contain U+0000.")
        }
    }

    /// Whether there can be a record with this key.
    package static func canBeKey(_ key: String) -> Bool { !key.utf8.contains(0) }
}
