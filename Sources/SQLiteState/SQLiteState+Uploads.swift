package import Foundation
internal import GRDB
internal import StateRecords
package import UploadModel

extension SQLiteState {
    package func insert(
        _ upload: Upload,
        consuming grant: Grant?,
        under effectiveLimits: EffectiveLimits,
        recording event: EventRecord
    ) async throws(UploadError) {
        try await insert(upload, consuming: grant, under: effectiveLimits, recording: event) { _ in }
    }

    /// Like the method above; also runs `also` in the same transaction, to record what belongs to the upload.
    func insert(
        _ upload: Upload,
        consuming grant: Grant?,
        under effectiveLimits: EffectiveLimits,
        recording event: EventRecord,
        _ also: @escaping @Sendable (Database) throws -> Void
    ) async throws(UploadError) {
        try await write { [usages, recording] database in
            if let grant { try database.use(grant, for: upload.id) }
            if let right = upload.writingRight { try database.check(right) }
            if let alias = upload.alias, try database.row("SELECT 1 FROM upload WHERE alias = ?", [alias]) != nil {
                throw UploadError.aliasTaken
            }
            if let bucket = upload.bucket, try !database.hasBucket(bucket) { throw UploadError.noBucket }
            try usages.charge(
                Accounting.creating(upload),
                createdAt: upload.createdAt,
                under: effectiveLimits,
                in: database
            )
            try recording.insert(event, in: database)
            try database.insert(upload)
            for part in Set(upload.concatenation?.parts ?? []) {
                try database.run(
                    "INSERT INTO awaited_part (part_id, final_id) VALUES (?, ?)",
                    [part.text, upload.id.text]
                )
            }
            try also(database)
        }
    }

    package func insertComplete(
        _ upload: Upload,
        as media: Media,
        replacing replaced: UploadID?,
        consuming grant: Grant?,
        under effectiveLimits: EffectiveLimits,
        recording events: [EventRecord]
    ) async throws(UploadError) {
        try await write { [usages, recording] database in
            if let grant { try database.use(grant, for: upload.id) }
            if let right = upload.writingRight { try database.exercise(right, by: upload) }
            if let bucket = upload.bucket, try !database.hasBucket(bucket) { throw UploadError.noBucket }
            let replaced = try database.replaced(replaced, by: media)
            if let replaced { try database.end(replaced.id, as: .terminated, at: upload.updatedAt) }
            let steps = Accounting.storing(upload, replacing: replaced)
            try usages.charge(steps, createdAt: upload.createdAt, under: effectiveLimits, in: database)
            for event in events { try recording.insert(event, in: database) }
            try database.insert(upload)
            try database.insert(media)
        }
    }

    package func endRight(_ id: String, recordedUntil end: Date) async throws(UploadError) {
        try await write { database in
            try database.run(
                """
                INSERT INTO used_grant (id, upload_id, expires_at) VALUES (?, '', ?)
                ON CONFLICT (id) DO UPDATE SET expires_at = max(expires_at, excluded.expires_at)
                """,
                [id, Milliseconds(end)]
            )
        }
    }

    package func hasEnded(right id: String) async throws(UploadError) -> Bool {
        try await read { database in try database.hasUsed(id) }
    }

    package func upload(_ id: UploadID) async throws(UploadError) -> Upload? {
        try await read { database in try database.upload(id) }
    }

    package func upload(alias: String) async throws(UploadError) -> UploadID? {
        try await read { database in
            try database.row("SELECT id FROM upload WHERE alias = ?", [alias]).map { try $0.uploadID("upload") }
        }
    }

    package func uploads(_ query: UploadQuery) async throws(UploadError) -> [Upload] {
        try await read { database in
            let (sql, arguments) = Self.statement(of: query)
            return try database.rows(sql, SQLiteArguments(arguments)).map(Upload.init(row:))
        }
    }

    package func end(of query: UploadQuery, reading count: Int) async throws(UploadError) -> UploadID? {
        guard query.readsOthers else { return nil }
        return try await read { database in
            try query.orders.compactMap { column, value in
                var conditions = ["\(column) = ?"]
                var arguments: [(any DatabaseValueConvertible & Sendable)?] = [value]
                Self.restrict(query, &conditions, &arguments)
                let sql = """
                    SELECT id FROM upload INDEXED BY upload_by_\(column) WHERE \(conditions.joined(separator: " AND "))
                    ORDER BY id DESC LIMIT 1 OFFSET ?
                    """
                return try database.rows(sql, SQLiteArguments(arguments + [count - 1])).first?.uploadID("upload")
            }.max { $0.text < $1.text }
        }
    }

    private static func restrict(
        _ query: UploadQuery,
        _ conditions: inout [String],
        _ arguments: inout [(any DatabaseValueConvertible & Sendable)?]
    ) {
        for (condition, id) in [("id >= ?", query.lowestID), ("id < ?", query.endOfIDs)] {
            guard let id else { continue }
            conditions.append(condition)
            arguments.append(id)
        }
    }

    /// Chooses the most selective index, because SQLite has no statistics to do so.
    ///
    /// Each index ends with the id, so a page is read from its start; with several states, one page is read for each.
    static func statement(
        of query: UploadQuery
    ) -> (sql: String, arguments: [(any DatabaseValueConvertible & Sendable)?]) {
        var conditions: [String] = []
        var arguments: [(any DatabaseValueConvertible & Sendable)?] = []
        func require(_ condition: String, _ argument: String?) {
            guard let argument else { return }
            conditions.append(condition)
            arguments.append(argument)
        }
        require("subject = ?", query.subject)
        require("issuer = ?", query.issuer)
        require("dialect = ?", query.dialect)
        Self.restrict(query, &conditions, &arguments)

        let states = query.selectedStates.map(\.rawValue)
        let order = query.order
        let index: String? =
            switch order {
            case .subject: "upload_by_subject"
            case .states: "upload_by_state"
            case .issuer: "upload_by_issuer"
            case .dialect: "upload_by_dialect"
            case .all: nil
            }
        func select(_ conditions: [String]) -> String {
            let filter = conditions.isEmpty ? "" : "WHERE " + conditions.joined(separator: " AND ")
            return "SELECT * FROM upload \(index.map { "INDEXED BY \($0)" } ?? "") \(filter) ORDER BY id DESC LIMIT ?"
        }
        guard case .states = order, states.count > 1 else {
            if !states.isEmpty {
                let marks = Array(repeating: "?", count: states.count).joined(separator: ", ")
                conditions.append(states.count == 1 ? "state = ?" : "state IN (\(marks))")
                arguments += states
            }
            return (select(conditions), arguments + [query.limit])
        }
        let each = "SELECT * FROM (\(select(conditions + ["state = ?"])))"
        return (
            Array(repeating: each, count: states.count).joined(separator: " UNION ALL ") + " ORDER BY id DESC LIMIT ?",
            states.flatMap { arguments + [$0, query.limit] } + [query.limit]
        )
    }

    package func uploads(_ ids: [UploadID]) async throws(UploadError) -> [UploadID: Upload] {
        var found: [UploadID: Upload] = [:]
        try await inChunks(Array(Set(ids))) { database, list in
            try database.rows("SELECT * FROM upload WHERE id IN (SELECT value FROM json_each(?))", [list])
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

    package func complete(
        _ upload: Upload,
        as media: Media?,
        replacing replaced: UploadID?,
        under effectiveLimits: EffectiveLimits,
        recording events: [EventRecord]
    ) async throws(UploadError) -> Bool {
        try await write { [usages, recording] database in
            let id = upload.id
            guard let before = try database.upload(id), before.state == .open else { return false }
            guard before.metadata == upload.metadata else { throw UploadError.metadataChanged }
            if let right = before.writingRight { try database.exercise(right, by: upload) }
            let replaced = try database.replaced(replaced, by: media)
            try database.run(
                """
                UPDATE upload SET state = 'completed', length = ?, updated_at = ?, ended_at = ?, expires_at = ?,
                    reserved_bytes = ?, attributes = ?
                WHERE id = ?
                """,
                [
                    upload.length, Milliseconds(upload.updatedAt), upload.endedAt.map(Milliseconds.init),
                    upload.expiresAt.map(Milliseconds.init), upload.reservedBytes,
                    try upload.attributes.map { try JSONText($0) }, id.text,
                ]
            )
            if before.takesParts { try database.run("DELETE FROM object_part WHERE upload_id = ?", [id.text]) }
            var parts: [Upload] = []
            for part in Set(upload.concatenation?.parts ?? []) {
                try database.run("DELETE FROM awaited_part WHERE final_id = ? AND part_id = ?", [id.text, part.text])
                if let part = try database.upload(part) { parts.append(part) }
                try database.run("UPDATE upload SET reserved_bytes = 0 WHERE id = ?", [part.text])
            }
            if let replaced { try database.end(replaced.id, as: .terminated, at: upload.updatedAt) }
            let size = upload.length ?? 0
            let changes = Accounting.completing(before, size: size, parts: parts, replacing: replaced)
            try usages.charge(changes, createdAt: before.createdAt, under: effectiveLimits, in: database)
            for event in events { try recording.insert(event, in: database) }
            if let media { try database.insert(media) }
            return true
        }
    }

    package func end(
        _ id: UploadID,
        from expected: Upload.State,
        as state: Upload.State,
        at now: Date,
        received: Int64,
        recording event: EventRecord
    ) async throws(UploadError) -> Bool {
        try await write(.reserve) { [usages, recording] database in
            guard let before = try database.upload(id), before.isAlive, before.state == expected else { return false }
            try database.end(id, as: state, at: now)
            let parts = before.state == .completed ? try database.parts(of: before) : []
            try database.hold(parts.filter(\.isReleased))
            let changes = Accounting.ending(before, received: received, parts: parts)
            try usages.charge(changes, createdAt: before.createdAt, under: nil, in: database)
            try recording.insert(event, in: database)
            return true
        }
    }

    package func setLength(
        of id: UploadID,
        to length: Int64,
        updatedAt: Date,
        under effectiveLimits: EffectiveLimits
    ) async throws(UploadError) -> Bool {
        try await write { [usages] database in
            guard let before = try database.upload(id), before.state == .open, before.length == nil else {
                return false
            }
            let changes = Accounting.reserving(length, for: before)
            try usages.charge(changes, createdAt: before.createdAt, under: effectiveLimits, in: database)
            try database.run(
                "UPDATE upload SET length = ?, reserved_bytes = ?, updated_at = ? WHERE id = ?",
                [length, length, Milliseconds(updatedAt), id.text]
            )
            return true
        }
    }

    package func reserve(_ bytes: Int64, for id: UploadID, under effectiveLimits: EffectiveLimits)
        async throws(UploadError) -> Bool
    {
        try await write { [usages] database in
            guard let before = try database.upload(id), before.state == .open else { return false }
            let changes = Accounting.reserving(bytes, for: before)
            try usages.charge(changes, createdAt: before.createdAt, under: effectiveLimits, in: database)
            try database.run("UPDATE upload SET reserved_bytes = ? WHERE id = ?", [bytes, id.text])
            return true
        }
    }

    package func setMetadata(
        of id: UploadID,
        from before: UploadMetadata,
        to metadata: UploadMetadata,
        updatedAt: Date,
        recording event: EventRecord
    ) async throws(UploadError) -> Bool {
        try await write { [recording] database in
            guard let upload = try database.upload(id), upload.state == .open || upload.state == .completed else {
                return false
            }
            guard upload.metadata == before else { throw UploadError.metadataChanged }
            let values = JSONText(texts: metadata.values)
            try database.run(
                "UPDATE upload SET metadata_raw = ?, metadata = ?, updated_at = ? WHERE id = ?",
                [metadata.raw, values, Milliseconds(updatedAt), id.text]
            )
            try database.run(
                "UPDATE media SET metadata = ?, content_type = ?, filename = ? WHERE id = ?",
                [values, metadata.contentType, metadata.filename, id.text]
            )
            try recording.insert(event, in: database)
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

    /// Runs a query with any number of ids.
    ///
    /// The ids are one argument, a JSON list, so that one compiled statement serves any number.
    func inChunks<Value: Sendable>(
        _ ids: [UploadID],
        _ fetch: @escaping @Sendable (Database, _ list: String) throws -> [Value],
        each: (Value) -> Void
    ) async throws(UploadError) {
        var rest = ids[...]
        while !rest.isEmpty {
            // Texts of ids have no character that JSON escapes.
            let list = "[" + rest.prefix(Self.chunkSize).map { "\"\($0.text)\"" }.joined(separator: ",") + "]"
            rest = rest.dropFirst(Self.chunkSize)
            let values = try await read { database in try fetch(database, list) }
            for value in values { each(value) }
        }
    }

    /// Short reads let the checkpoints of writers proceed.
    private static let chunkSize = 500
}

extension Database {
    func upload(_ id: UploadID) throws -> Upload? {
        try row("SELECT * FROM upload WHERE id = ?", [id.text]).map(Upload.init(row:))
    }

    /// The parts of a final upload that exist, each once.
    fileprivate func parts(of upload: Upload) throws -> [Upload] {
        guard let parts = upload.concatenation?.parts else { return [] }
        let list = try JSONText(parts.map(\.text))
        return try rows("SELECT * FROM upload WHERE id IN (SELECT value FROM json_each(?))", [list])
            .map(Upload.init(row:))
    }

    /// Complete parts reserve their lengths again, except for the usage of their accounts.
    fileprivate func hold(_ parts: [Upload]) throws {
        if parts.isEmpty { return }
        let list = try JSONText(parts.map(\.id.text))
        try run("UPDATE upload SET reserved_bytes = length WHERE id IN (SELECT value FROM json_each(?))", [list])
    }

    /// Records the use of a one-time grant.
    ///
    /// - Throws: `UploadError` `.grantUsed`.
    fileprivate func use(_ grant: Grant, for id: UploadID) throws {
        try run(
            "INSERT INTO used_grant (id, upload_id, expires_at) VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING",
            [grant.id, id.text, Milliseconds(grant.expiresAt)]
        )
        guard changesCount == 1 else {
            throw UploadError.grantUsed
        }
    }

    fileprivate func hasUsed(_ id: String) throws -> Bool {
        try row("SELECT 1 FROM used_grant WHERE id = ?", [id]) != nil
    }

    /// - Throws: `UploadError.rightEnded`.
    fileprivate func check(_ right: WritingRight) throws {
        if try hasUsed(right.id) { throw UploadError.rightEnded }
    }

    /// Checks the right under which an upload is completed, and ends it if that is all that it was given for.
    ///
    /// - Throws: `UploadError.rightEnded`.
    fileprivate func exercise(_ right: WritingRight, by upload: Upload) throws {
        guard right.isEnded(by: upload) else { return try check(right) }
        try run(
            "INSERT INTO used_grant (id, upload_id, expires_at) VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING",
            [right.id, upload.id.text, Milliseconds(WritingRight.recorded(from: upload.updatedAt))]
        )
        if changesCount == 0 { throw UploadError.rightEnded }
    }

    fileprivate func insert(_ upload: Upload) throws {
        let parts = upload.concatenation?.parts
        try run(
            """
            INSERT INTO upload (id, dialect, subject, principal, length, maximum_bytes, completes_when_full, state,
                metadata_raw, metadata, concatenation_raw, concatenation_parts, expected_digests, created_at,
                updated_at, expires_at, ended_at, alias, object_key, issuer, reserved_bytes, bucket, attributes,
                takes_parts)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            [
                upload.id.text, upload.dialect, upload.subject, upload.principal, upload.length,
                upload.maximumBytes, upload.completesWhenFull, upload.state.rawValue, upload.metadata.raw,
                JSONText(texts: upload.metadata.values),
                upload.concatenation?.raw, try parts.map { try JSONText($0.map(\.text)) },
                JSONText(upload.expectedDigests),
                Milliseconds(upload.createdAt), Milliseconds(upload.updatedAt),
                upload.expiresAt.map(Milliseconds.init),
                upload.endedAt.map(Milliseconds.init), upload.alias, upload.key, upload.issuer,
                upload.reservedBytes, upload.bucket, try upload.attributes.map { try JSONText($0) },
                upload.takesParts,
            ]
        )
    }

    fileprivate func insert(_ media: Media) throws {
        try run(
            """
            INSERT INTO media (id, subject, size, content_type, filename, metadata, digests, created_at, object_key,
                bucket, attributes)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            [
                media.id.text, media.subject, media.size, media.contentType, media.filename,
                JSONText(texts: media.metadata),
                JSONText(media.digests), Milliseconds(media.createdAt), media.key, media.bucket,
                try media.attributes.map { try JSONText($0) },
            ]
        )
    }

    /// Ends an upload, except for the usage of its accounts and the event.
    fileprivate func end(_ id: UploadID, as state: Upload.State, at now: Date) throws {
        let now = Milliseconds(now)
        try run(
            """
            UPDATE upload SET state = ?, updated_at = ?, ended_at = ?, expires_at = NULL, reserved_bytes = 0
            WHERE id = ?
            """,
            [state.rawValue, now, now, id.text]
        )
        try run("DELETE FROM media WHERE id = ?", [id.text])
        try run("DELETE FROM awaited_part WHERE final_id = ?", [id.text])
        try run("DELETE FROM object_part WHERE upload_id = ?", [id.text])
        try run("UPDATE pull SET next_attempt_at = NULL, sealed = '' WHERE upload_id = ?", [id.text])
    }
}
