package import Foundation
internal import StateRecords
package import UploadModel

extension PostgresState {
    static let uploadColumns = """
        id, dialect, subject, principal, length, maximum_bytes, completes_when_full, state, metadata_raw, metadata,
        concatenation_raw, concatenation_parts, expected_digests, created_at, updated_at, expires_at, ended_at, alias,
        object_key, issuer, reserved_bytes, bucket, attributes, takes_parts
        """

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
        _ also: @escaping @Sendable (Connection) throws -> Void
    ) async throws(UploadError) {
        try await write { connection in
            if let grant { connection.use(grant, for: upload.id) }
            if let right = upload.writingRight { connection.check(right) }
            if let bucket = upload.bucket { connection.keepBucket(bucket) }
            try connection.insert(upload)
            if let parts = upload.concatenation?.parts {
                connection.send(
                    "INSERT INTO awaited_part (part_id, final_id) SELECT DISTINCT unnest($2::text[]), $1",
                    [upload.id.text, TextArray(parts.map(\.text))]
                )
            }
            try also(connection)
            try connection.charge(Accounting.creating(upload), createdAt: upload.createdAt, under: effectiveLimits)
            try connection.insert([event])
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
        try await write { connection in
            if let grant { connection.use(grant, for: upload.id) }
            if let right = upload.writingRight { connection.exercise(right, by: upload) }
            if let bucket = upload.bucket { connection.keepBucket(bucket) }
            // No other transaction can see or lock the new upload yet. Whether a free name stays free is decided when
            // the media is inserted.
            var object: Upload?
            if let replaced {
                let found = try connection.lock([replaced], finding: media.objectName)
                guard found.object == replaced else { throw UploadError.objectChanged }
                object = found.uploads[replaced]
            }
            if let object { connection.end(object.id, as: .terminated, at: upload.updatedAt) }
            try connection.insert(upload)
            try connection.insert(media)
            let steps = Accounting.storing(upload, replacing: object)
            try connection.charge(steps, createdAt: upload.createdAt, under: effectiveLimits)
            try connection.insert(events)
        }
    }

    package func endRight(_ id: String, recordedUntil end: Date) async throws(UploadError) {
        try await write { connection in
            // Waits for the transactions that have checked the right.
            connection.send("SELECT pg_advisory_xact_lock(\(Connection.lockOfRight)) IS NULL", [id])
            connection.send(
                """
                INSERT INTO used_grant (id, upload_id, expires_at) VALUES ($1, '', $2)
                ON CONFLICT (id) DO UPDATE SET expires_at = greatest(used_grant.expires_at, excluded.expires_at)
                """,
                [id, Milliseconds(end)]
            )
        }
    }

    package func hasEnded(right id: String) async throws(UploadError) -> Bool {
        try await read { connection in
            try connection.row("SELECT FROM used_grant WHERE id = $1", [id]) != nil
        }
    }

    package func upload(_ id: UploadID) async throws(UploadError) -> Upload? {
        try await read { connection in
            try connection.row("SELECT \(Self.uploadColumns) FROM upload WHERE id = $1", [id.text]).map(
                Upload.init(row:)
            )
        }
    }

    package func upload(alias: String) async throws(UploadError) -> UploadID? {
        try await read { connection in
            try connection.row("SELECT id FROM upload WHERE alias = $1", [alias]).map { try $0.uploadID("upload") }
        }
    }

    package func uploads(_ query: UploadQuery) async throws(UploadError) -> [Upload] {
        try await read { connection in
            let (sql, values) = Self.statement(of: query)
            // The values may select a few uploads of a key or a protocol, or nearly all.
            return try connection.rows(sql, values, isPlannedAnew: true).map(Upload.init(row:))
        }
    }

    package func end(of query: UploadQuery, reading count: Int) async throws(UploadError) -> UploadID? {
        guard query.readsOthers else { return nil }
        return try await read { connection in
            try query.orders.compactMap { column, value in
                let sql = """
                    SELECT id FROM upload WHERE \(column) = $1 AND id >= $2 AND ($3::text IS NULL OR id < $3)
                    ORDER BY id DESC LIMIT 1 OFFSET $4
                    """
                let values: [(any Parameter)?] = [value, query.lowestID ?? "", query.endOfIDs, count - 1]
                return try connection.row(sql, values).map { try $0.uploadID("upload") }
            }.max { $0.text < $1.text }
        }
    }

    /// Each index ends with the id, so a page is read from its start; with several states, one page is read for each,
    /// because they have no common order.
    ///
    /// States are part of the text: there are few, and the planner knows how frequent each one is.
    static func statement(of query: UploadQuery) -> (sql: String, values: [(any Parameter)?]) {
        var conditions: [String] = []
        var values: [(any Parameter)?] = []
        func require(_ condition: String, _ value: String?) {
            guard let value else { return }
            values.append(value)
            conditions.append("\(condition) $\(values.count)")
        }
        require("subject =", query.subject)
        require("issuer =", query.issuer)
        require("dialect =", query.dialect)
        require("id >=", query.lowestID)
        require("id <", query.endOfIDs)
        values.append(query.limit)
        let limit = "$\(values.count)"

        func page(_ conditions: [String]) -> String {
            let filter = conditions.isEmpty ? "" : "WHERE " + conditions.joined(separator: " AND ")
            return "SELECT \(uploadColumns) FROM upload \(filter) ORDER BY id DESC LIMIT \(limit)"
        }
        let states = query.selectedStates.map(\.rawValue)
        if states.isEmpty { return (page(conditions), values) }
        if query.subject != nil {
            // One user has few uploads; all users together may have many open ones, which must not be read as well.
            let list = states.map { "'\($0)'" }.joined(separator: ", ")
            return (page(conditions + ["state || '' IN (\(list))"]), values)
        }
        let all = states.map { page(conditions + ["state = '\($0)'"]) }
        if all.count == 1 { return (all[0], values) }
        let pages = all.map { "(\($0))" }
        return ("\(pages.joined(separator: " UNION ALL ")) ORDER BY id DESC LIMIT \(limit)", values)
    }

    package func uploads(_ ids: [UploadID]) async throws(UploadError) -> [UploadID: Upload] {
        try await read { connection in
            let found = try connection.rows(
                "SELECT \(Self.uploadColumns) FROM upload WHERE id = ANY ($1::text[])",
                [TextArray(ids.map(\.text))]
            ).map(Upload.init(row:))
            return Dictionary(uniqueKeysWithValues: found.map { ($0.id, $0) })
        }
    }

    package func openFinals(of part: UploadID) async throws(UploadError) -> [UploadID] {
        try await read { connection in
            try connection.rows(
                "SELECT final_id AS id FROM awaited_part WHERE part_id = $1 ORDER BY final_id",
                [part.text]
            ).map { try $0.uploadID("awaited_part") }
        }
    }

    package func complete(
        _ upload: Upload,
        as media: Media?,
        replacing replaced: UploadID?,
        under effectiveLimits: EffectiveLimits,
        recording events: [EventRecord]
    ) async throws(UploadError) -> Bool {
        try await write(holding: upload.id) { connection in
            let id = upload.id
            // Together with its parts and the replaced upload, because all transactions lock uploads in the order of
            // their ids.
            let parts = upload.concatenation?.parts ?? []
            let found = try connection.lock([id] + parts + [replaced].compactMap { $0 }, finding: media?.objectName)
            var known = found.uploads
            guard let before = known.removeValue(forKey: id), before.state == .open else { return false }
            guard before.metadata == upload.metadata else { throw UploadError.metadataChanged }
            guard found.object == replaced else { throw UploadError.objectChanged }
            let object = replaced.flatMap { known.removeValue(forKey: $0) }
            if let right = before.writingRight { connection.exercise(right, by: upload) }
            connection.send(
                """
                UPDATE upload SET state = 'completed', length = $2, updated_at = $3, ended_at = $4, expires_at = $5,
                    reserved_bytes = $6, attributes = $7
                WHERE id = $1
                """,
                [
                    id.text, upload.length, Milliseconds(upload.updatedAt), upload.endedAt.map(Milliseconds.init),
                    upload.expiresAt.map(Milliseconds.init), upload.reservedBytes,
                    try upload.attributes.map { try JSONText($0) },
                ]
            )
            connection.send("DELETE FROM object_part WHERE upload_id = $1", [id.text])
            if !parts.isEmpty {
                let texts = TextArray(parts.map(\.text))
                connection.send(
                    "DELETE FROM awaited_part WHERE final_id = $1 AND part_id = ANY ($2::text[])",
                    [id.text, texts]
                )
                connection.send(
                    "UPDATE upload SET reserved_bytes = 0 WHERE id = ANY ($1::text[]) AND reserved_bytes <> 0",
                    [texts]
                )
            }
            if let object { connection.end(object.id, as: .terminated, at: upload.updatedAt) }
            if let media { try connection.insert(media) }
            let size = upload.length ?? 0
            let changes = Accounting.completing(before, size: size, parts: Array(known.values), replacing: object)
            try connection.charge(changes, createdAt: before.createdAt, under: effectiveLimits)
            try connection.insert(events)
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
        try await write(holding: id) { connection in
            var found = try connection.lockWithParts(id)
            guard let before = found.removeValue(forKey: id), before.isAlive, before.state == expected else {
                return false
            }
            connection.end(id, as: state, at: now)
            let parts = Array(found.values)
            connection.hold(parts.filter(\.isReleased))
            let changes = Accounting.ending(before, received: received, parts: parts)
            try connection.charge(changes, createdAt: before.createdAt, under: nil)
            try connection.insert([event])
            return true
        }
    }

    package func setLength(
        of id: UploadID,
        to length: Int64,
        updatedAt: Date,
        under effectiveLimits: EffectiveLimits
    ) async throws(UploadError) -> Bool {
        try await write(holding: id) { connection in
            guard let before = try connection.lock(id), before.state == .open, before.length == nil else {
                return false
            }
            connection.send(
                "UPDATE upload SET length = $2, reserved_bytes = $2, updated_at = $3 WHERE id = $1",
                [id.text, length, Milliseconds(updatedAt)]
            )
            let changes = Accounting.reserving(length, for: before)
            try connection.charge(changes, createdAt: before.createdAt, under: effectiveLimits)
            return true
        }
    }

    package func reserve(_ bytes: Int64, for id: UploadID, under effectiveLimits: EffectiveLimits)
        async throws(UploadError) -> Bool
    {
        try await write(holding: id) { connection in
            guard let before = try connection.lock(id), before.state == .open else { return false }
            connection.send("UPDATE upload SET reserved_bytes = $2 WHERE id = $1", [id.text, bytes])
            let changes = Accounting.reserving(bytes, for: before)
            try connection.charge(changes, createdAt: before.createdAt, under: effectiveLimits)
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
        try await write { connection in
            guard let upload = try connection.lock(id), upload.state == .open || upload.state == .completed else {
                return false
            }
            guard upload.metadata == before else { throw UploadError.metadataChanged }
            let values = JSONText(texts: metadata.values)
            connection.send(
                "UPDATE upload SET metadata_raw = $2, metadata = $3, updated_at = $4 WHERE id = $1",
                [id.text, metadata.raw, values, Milliseconds(updatedAt)]
            )
            connection.send(
                "UPDATE media SET metadata = $2, content_type = $3, filename = $4 WHERE id = $1",
                [id.text, values, metadata.contentType, metadata.filename]
            )
            try connection.insert([event])
            return true
        }
    }

    package func setExpiry(of id: UploadID, to date: Date?, updatedAt: Date) async throws(UploadError) {
        try await write(holding: id) { connection in
            _ = connection.send(
                "UPDATE upload SET expires_at = $2, updated_at = $3 WHERE id = $1 AND state = 'open'",
                [id.text, date.map(Milliseconds.init), Milliseconds(updatedAt)]
            )
        }
    }
}

extension Connection {
    /// The uploads among `ids` that exist, locked against changes until the transaction ends, and then the object that
    /// has this name.
    ///
    /// If the upload of that object is among them, the object stays until the transaction ends. Whether a free name
    /// stays free is decided when the media is inserted.
    fileprivate func lock(
        _ ids: [UploadID],
        finding name: ObjectName? = nil
    ) throws -> (uploads: [UploadID: Upload], object: UploadID?) {
        let found = send(
            "SELECT \(PostgresState.uploadColumns) FROM upload WHERE id = ANY ($1::text[]) ORDER BY id FOR UPDATE",
            [TextArray(ids.map(\.text))]
        )
        let object = name.map { sendSearch(for: $0) }
        try flush()
        let uploads = try found.rows.map(Upload.init(row:))
        return (
            Dictionary(uniqueKeysWithValues: uploads.map { ($0.id, $0) }), try object?.row?.uploadID("media")
        )
    }

    fileprivate func lock(_ id: UploadID) throws -> Upload? { try lock([id]).uploads[id] }

    /// Locks an upload and, if it is a complete final upload, its parts.
    ///
    /// The parts of an upload never change, so they can be read before they are locked.
    fileprivate func lockWithParts(_ id: UploadID) throws -> [UploadID: Upload] {
        let found = try rows(
            """
            SELECT \(PostgresState.uploadColumns) FROM upload
            WHERE id = ANY (ARRAY(
                SELECT $1::text
                UNION ALL
                SELECT jsonb_array_elements_text(concatenation_parts::jsonb) FROM upload
                WHERE id = $1 AND state = 'completed' AND concatenation_parts IS NOT NULL
            ))
            ORDER BY id FOR UPDATE
            """,
            [id.text]
        ).map(Upload.init(row:))
        return Dictionary(uniqueKeysWithValues: found.map { ($0.id, $0) })
    }

    /// Complete parts reserve their lengths again, except for the usage of their accounts.
    fileprivate func hold(_ parts: [Upload]) {
        if parts.isEmpty { return }
        send(
            "UPDATE upload SET reserved_bytes = length WHERE id = ANY ($1::text[])",
            [TextArray(parts.map(\.id.text))]
        )
    }

    /// Records the use of a one-time grant; refuses with `UploadError.grantUsed`.
    fileprivate func use(_ grant: Grant, for id: UploadID) {
        // If two transactions use a grant at the same time, the second one waits here for the outcome of the
        // first.
        send(
            """
            WITH added AS (
                INSERT INTO used_grant (id, upload_id, expires_at) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING RETURNING 1
            )
            SELECT \(Self.demand("count(*) = 1")) FROM added
            """,
            [grant.id, id.text, Milliseconds(grant.expiresAt)],
            refusal: .grantUsed
        )
    }

    /// The advisory lock of the right whose id is `$1`: an end takes it alone, and what checks the right shares it.
    fileprivate static let lockOfRight =
        "hashtextextended('sluice right ' || current_schema() || ' ' || $1::text, 0)"

    /// Refuses with `UploadError.rightEnded`.
    fileprivate func check(_ right: WritingRight) {
        // In a statement before, so that the next one sees an end for which this one has waited.
        send("SELECT pg_advisory_xact_lock_shared(\(Self.lockOfRight)) IS NULL", [right.id])
        send(
            "SELECT \(Self.demand("NOT EXISTS (SELECT FROM used_grant WHERE id = $1)"))",
            [right.id],
            refusal: .rightEnded
        )
    }

    /// Checks the right under which an upload is completed, and ends it if that is all that it was given for; refuses with
    /// `UploadError.rightEnded`.
    fileprivate func exercise(_ right: WritingRight, by upload: Upload) {
        guard right.isEnded(by: upload) else { return check(right) }
        send(
            """
            WITH added AS (
                INSERT INTO used_grant (id, upload_id, expires_at) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING RETURNING 1
            )
            SELECT \(Self.demand("count(*) = 1")) FROM added
            """,
            [right.id, upload.id.text, Milliseconds(WritingRight.recorded(from: upload.updatedAt))],
            refusal: .rightEnded
        )
    }

    /// Refuses with `UploadError.aliasTaken`.
    fileprivate func insert(_ upload: Upload) throws {
        let parts = upload.concatenation?.parts
        send(
            """
            WITH added AS (
                INSERT INTO upload (\(PostgresState.uploadColumns))
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21,
                    $22, $23, $24)
                ON CONFLICT (alias) WHERE alias IS NOT NULL DO NOTHING RETURNING 1
            )
            SELECT \(Self.demand("count(*) = 1")) FROM added
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
            ],
            refusal: .aliasTaken
        )
    }

    /// Ends an upload, except for the usage of its accounts and the event.
    fileprivate func end(_ id: UploadID, as state: Upload.State, at now: Date) {
        send(
            """
            UPDATE upload SET state = $2, updated_at = $3, ended_at = $3, expires_at = NULL, reserved_bytes = 0
            WHERE id = $1
            """,
            [id.text, state.rawValue, Milliseconds(now)]
        )
        send("DELETE FROM media WHERE id = $1", [id.text])
        send("DELETE FROM awaited_part WHERE final_id = $1", [id.text])
        send("DELETE FROM object_part WHERE upload_id = $1", [id.text])
        send("UPDATE pull SET next_attempt_at = NULL, sealed = '' WHERE upload_id = $1", [id.text])
    }
}
