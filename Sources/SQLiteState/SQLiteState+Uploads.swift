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
            let parts = upload.concatenation?.parts
            try database.run(
                """
                INSERT INTO upload (id, dialect, subject, principal, length, maximum_bytes, completes_when_full, state,
                    metadata_raw, metadata, concatenation_raw, concatenation_parts, created_at, updated_at, expires_at, ended_at)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """,
                [
                    upload.id.text, upload.dialect, upload.subject, upload.principal, upload.length,
                    upload.maximumBytes, upload.completesWhenFull, upload.state.rawValue, upload.metadata.raw,
                    try JSONText(upload.metadata.values),
                    upload.concatenation?.raw, try parts.map { try JSONText($0.map(\.text)) },
                    Milliseconds(upload.createdAt), Milliseconds(upload.updatedAt),
                    upload.expiresAt.map(Milliseconds.init),
                    upload.endedAt.map(Milliseconds.init),
                ]
            )
            for part in Set(parts ?? []) {
                try database.run(
                    "INSERT INTO awaited_part (part_id, final_id) VALUES (?, ?)",
                    [part.text, upload.id.text]
                )
            }
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

    package func uploads(_ ids: [UploadID]) async throws(UploadError) -> [UploadID: Upload] {
        var found: [UploadID: Upload] = [:]
        try await inChunks(Array(Set(ids))) { database, marks, arguments in
            try Row.fetchAll(database, sql: "SELECT * FROM upload WHERE id IN (\(marks))", arguments: arguments)
                .map(Upload.init(row:))
        } each: { upload in
            found[upload.id] = upload
        }
        return found
    }

    package func openFinals(of part: UploadID) async throws(UploadError) -> [UploadID] {
        try await read { database in
            try database.rows(
                "SELECT final_id AS id FROM awaited_part WHERE part_id = ? ORDER BY final_id",
                [part.text]
            )
            .map { try $0.uploadID("awaited_part") }
        }
    }

    package func complete(_ upload: Upload, as media: Media?) async throws(UploadError) -> Bool {
        try await write { database in
            let id = upload.id
            try database.run(
                """
                UPDATE upload SET state = 'completed', length = ?, updated_at = ?, ended_at = ?, expires_at = ?
                WHERE id = ? AND state = 'open'
                """,
                [
                    upload.length, Milliseconds(upload.updatedAt), upload.endedAt.map(Milliseconds.init),
                    upload.expiresAt.map(Milliseconds.init), id.text,
                ]
            )
            guard database.changesCount == 1 else { return false }
            if upload.concatenation?.parts != nil {
                try database.run("DELETE FROM awaited_part WHERE final_id = ?", [id.text])
            }
            guard let media else { return true }
            try database.run(
                """
                INSERT INTO media (id, subject, size, content_type, filename, metadata, created_at)
                VALUES (?, ?, ?, ?, ?, ?, ?)
                """,
                [
                    id.text, media.subject, media.size, media.contentType, media.filename, try JSONText(media.metadata),
                    Milliseconds(media.createdAt),
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
            try database.run("DELETE FROM awaited_part WHERE final_id = ?", [id.text])
            return true
        }
    }

    package func setLength(of id: UploadID, to length: Int64, updatedAt: Date) async throws(UploadError) -> Bool {
        try await write { database in
            try database.run(
                "UPDATE upload SET length = ?, updated_at = ? WHERE id = ? AND state = 'open' AND length IS NULL",
                [length, Milliseconds(updatedAt), id.text]
            )
            return database.changesCount == 1
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
                SELECT id FROM upload INDEXED BY upload_by_expiry
                WHERE expires_at IS NOT NULL AND expires_at <= ?
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
        try await inChunks(ids) { database, marks, arguments in
            try Row.fetchAll(
                database,
                sql: "SELECT id FROM upload WHERE id IN (\(marks)) AND state IN ('open', 'completed')",
                arguments: arguments
            ).map { try $0.uploadID("upload") }
        } each: { id in
            needed.insert(id)
        }
        return needed
    }

    /// Reads what any number of ids name; statements are not cached, because the number of their marks varies.
    private func inChunks<Value: Sendable>(
        _ ids: [UploadID],
        _ fetch: @escaping @Sendable (Database, _ marks: String, StatementArguments) throws -> [Value],
        each: (Value) -> Void
    ) async throws(UploadError) {
        var rest = ids[...]
        while !rest.isEmpty {
            let chunk = rest.prefix(Self.chunkSize).map(\.text)
            rest = rest.dropFirst(Self.chunkSize)
            let marks = Array(repeating: "?", count: chunk.count).joined(separator: ", ")
            let values = try await read { database in try fetch(database, marks, StatementArguments(chunk)) }
            for value in values { each(value) }
        }
    }

    /// SQLite takes 32,766 arguments at most, and a short read lets writers' checkpoints through.
    private static let chunkSize = 500

    package func media(_ id: UploadID) async throws(UploadError) -> Media? {
        try await read { database in
            try database.row("SELECT * FROM media WHERE id = ?", [id.text]).map(Media.init(row:))
        }
    }
}
