package import Foundation
internal import GRDB
package import UploadCore

extension SQLiteState {
    package func insert(_ upload: Upload, consuming grant: Grant?) async throws(UploadError) {
        try await write { database in
            if let grant {
                try database.run(
                    "INSERT INTO used_grant (id, upload_id, expires_at) VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING",
                    [grant.id, upload.id.text, Milliseconds(grant.expiresAt)]
                )
                guard database.changesCount == 1 else {
                    throw UploadError(
                        .grantUsed,
                        "This credential admits one upload, and it was used; ask for a new one."
                    )
                }
            }
            try database.run(
                """
                INSERT INTO upload (id, dialect, subject, principal, length, state, metadata_raw, metadata,
                    created_at, updated_at, expires_at, ended_at)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """,
                [
                    upload.id.text, upload.dialect, upload.subject, upload.principal, upload.length,
                    upload.state.rawValue, upload.metadata.raw, try JSONText(upload.metadata.values),
                    Milliseconds(upload.createdAt), Milliseconds(upload.updatedAt),
                    upload.expiresAt.map(Milliseconds.init),
                    upload.endedAt.map(Milliseconds.init),
                ]
            )
        }
    }

    package func upload(_ id: UploadID) async throws(UploadError) -> Upload? {
        try await read { database in
            try database.row("SELECT * FROM upload WHERE id = ?", [id.text]).map(Upload.init(row:))
        }
    }

    package func uploads(_ query: UploadQuery) async throws(UploadError) -> [Upload] {
        var conditions: [String] = []
        var arguments: [(any DatabaseValueConvertible & Sendable)?] = []
        if let state = query.state {
            conditions.append("state = ?")
            arguments.append(state.rawValue)
        }
        if let subject = query.subject {
            conditions.append("subject = ?")
            arguments.append(subject)
        }
        if let before = query.before {
            conditions.append("id < ?")
            arguments.append(before.text)
        }
        // One user's uploads are few, those of one state are many; without statistics SQLite can not know.
        let index = query.subject == nil ? "" : "INDEXED BY upload_by_subject"
        let filter = conditions.isEmpty ? "" : "WHERE " + conditions.joined(separator: " AND ")
        arguments.append(query.limit)
        let bound = arguments
        return try await read { database in
            try database.rows(
                "SELECT * FROM upload \(index) \(filter) ORDER BY id DESC LIMIT ?",
                StatementArguments(bound)
            ).map(Upload.init(row:))
        }
    }

    package func complete(_ id: UploadID, as media: Media) async throws(UploadError) -> Bool {
        try await write { database in
            let now = Milliseconds(media.createdAt)
            try database.run(
                """
                UPDATE upload SET state = 'completed', length = ?, updated_at = ?, ended_at = ?, expires_at = NULL
                WHERE id = ? AND state = 'open'
                """,
                [media.size, now, now, id.text]
            )
            guard database.changesCount == 1 else { return false }
            try database.run(
                """
                INSERT INTO media (id, subject, size, content_type, filename, metadata, created_at)
                VALUES (?, ?, ?, ?, ?, ?, ?)
                """,
                [
                    id.text, media.subject, media.size, media.contentType, media.filename, try JSONText(media.metadata),
                    now,
                ]
            )
            return true
        }
    }

    package func end(_ id: UploadID, as state: Upload.State, at now: Date) async throws(UploadError) -> Bool {
        try await write { database in
            let now = Milliseconds(now)
            try database.run(
                """
                UPDATE upload SET state = ?, updated_at = ?, ended_at = ?, expires_at = NULL
                WHERE id = ? AND state IN ('open', 'completed')
                """,
                [state.rawValue, now, now, id.text]
            )
            guard database.changesCount == 1 else { return false }
            try database.run("DELETE FROM media WHERE id = ?", [id.text])
            return true
        }
    }

    package func setExpiry(of id: UploadID, to date: Date?, updatedAt: Date) async throws(UploadError) {
        try await write { database in
            try database.run(
                "UPDATE upload SET expires_at = ?, updated_at = ? WHERE id = ? AND state = 'open'",
                [date.map(Milliseconds.init), Milliseconds(updatedAt), id.text]
            )
        }
    }

    package func expiredUploads(at now: Date, limit: Int) async throws(UploadError) -> [UploadID] {
        try await read { database in
            try database.rows(
                """
                SELECT id FROM upload INDEXED BY upload_open_by_expiry
                WHERE state = 'open' AND expires_at IS NOT NULL AND expires_at <= ?
                ORDER BY expires_at LIMIT ?
                """,
                [Milliseconds(now), limit]
            ).map { try $0.uploadID("upload") }
        }
    }

    package func forgetEnded(before date: Date) async throws(UploadError) {
        try await write { database in
            let date = Milliseconds(date)
            try database.run(
                """
                DELETE FROM upload INDEXED BY upload_ended
                WHERE state IN ('terminated', 'expired') AND ended_at < ?
                """,
                [date]
            )
            // A grant whose own time is over admits nothing any more, used or not.
            try database.run("DELETE FROM used_grant WHERE expires_at < ?", [date])
        }
    }

    package func needed(_ ids: [UploadID]) async throws(UploadError) -> Set<UploadID> {
        var needed: Set<UploadID> = []
        var rest = ids[...]
        while !rest.isEmpty {
            let chunk = rest.prefix(Self.chunkSize).map(\.text)
            rest = rest.dropFirst(Self.chunkSize)
            let marks = Array(repeating: "?", count: chunk.count).joined(separator: ", ")
            needed.formUnion(
                try await read { database in
                    // Not cached: the number of marks varies.
                    try Row.fetchAll(
                        database,
                        sql: "SELECT id FROM upload WHERE id IN (\(marks)) AND state IN ('open', 'completed')",
                        arguments: StatementArguments(chunk)
                    ).map { try $0.uploadID("upload") }
                }
            )
        }
        return needed
    }

    /// SQLite takes 32,766 arguments at most, and a short read lets writers' checkpoints through.
    private static let chunkSize = 500

    package func media(_ id: UploadID) async throws(UploadError) -> Media? {
        try await read { database in
            try database.row("SELECT * FROM media WHERE id = ?", [id.text]).map(Media.init(row:))
        }
    }
}
