internal import Bytes
package import Foundation
package import UploadModel

/// What app users have begun and neither sent nor given up: a bounded number for each, because each leaves records.
///
/// Each is a record by itself, so that all nodes count together. Calls of one user that begin at once can exceed the bound by
/// their number.
package struct BegunUploads: Sendable {
    /// Uploads of one user.
    package static let maximum = 1000

    private let kind: String
    private let records: any DialectRecords
    private let maximum: Int

    package init(_ kind: String, in records: any DialectRecords, maximum: Int = Self.maximum) {
        self.kind = kind
        self.records = records
        self.maximum = maximum
    }

    /// The change that counts an upload which a user begins.
    ///
    /// - Parameters:
    ///   - id: Of the upload.
    ///   - user: Any text that names the user.
    ///   - end: From when it no longer counts.
    ///   - now: The time.
    /// - Returns: `nil` if the user has begun too many.
    /// - Throws: `UploadError`.
    package func beginning(
        _ id: String,
        of user: String,
        until end: Date,
        at now: Date
    ) async throws(UploadError) -> DialectChange? {
        var (open, last) = (0, nil as String?)
        while true {
            let page = try await records.records(kind, prefix: Self.key("", of: user), after: last, limit: maximum)
            // Those that have expired are forgotten now and then; until then they do not hide the others.
            open += page.count(where: { $0.expiresAt.map { now < $0 } ?? true })
            guard open < maximum else { return nil }
            guard page.count == maximum, let end = page.last else { break }
            last = end.key
        }
        let record = DialectRecord(
            kind: kind,
            key: Self.key(id, of: user),
            text: "{}",
            createdAt: now,
            expiresAt: end
        )
        return .insertIfAbsent(record, at: now)
    }

    /// The change after which an upload no longer counts: it was sent, or is removed.
    package func ending(_ id: String, of user: String) -> DialectChange {
        .removeIfPresent(kind: kind, key: Self.key(id, of: user))
    }

    /// The bytes of the name, because users may have any characters in theirs.
    static func key(_ id: String, of user: String) -> String { "\(Hexadecimal.encode(Array(user.utf8)))/\(id)" }
}
