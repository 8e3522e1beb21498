package import Foundation
internal import StateRecords
package import UploadCore

extension PostgresState {
    static let uploadColumns = """
        id, dialect, subject, principal, length, maximum_bytes, completes_when_full, state, metadata_raw, metadata,
        concatenation_raw, concatenation_parts, expected_digests, created_at, updated_at, expires_at, ended_at, alias,
        object_key, issuer, reserved_bytes, bucket, attributes, takes_parts
        """

    package func insert(
        _ upload: Upload,
        consuming grant: Grant?,
        under terms: QuotaTerms,
        recording event: EventRecord
    ) async throws(UploadError) {
        try await insert(upload, consuming: grant, under: terms, recording: event) { _ in }
    }

    /// As above, and runs `also` in the same transaction, which records what belongs to the upload.
    func insert(
        _ upload: Upload,
        consuming grant: Grant?,
        under terms: QuotaTerms,
        recording event: EventRecord,
        _ also: @escaping @Sendable (Connection) throws -> Void
    ) async throws(UploadError) {
        try await write { connection in
            if let grant {
                // Of two at the same time the second one waits here until it is known what becomes of the first.
                let isFirst = try connection.run(
                    """
                    INSERT INTO used_grant (id, upload_id, expires_at) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING
                    """,
                    [grant.id, upload.id.text, Milliseconds(grant.expiresAt)]
                )
                guard isFirst == 1 else {
                    throw UploadError(
                        .grantUsed,
                        "This credential admits one upload, and it was used; ask for a new one."
                    )
                }
            }
            if let bucket = upload.bucket { try connection.keepBucket(bucket) }
            let parts = upload.concatenation?.parts
            let inserted = try connection.run(
                """
                INSERT INTO upload (\(Self.uploadColumns))
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21,
                    $22, $23, $24)
                ON CONFLICT (alias) WHERE alias IS NOT NULL DO NOTHING
                """,
                [
                    upload.id.text, upload.dialect, upload.subject, upload.principal, upload.length,
                    upload.maximumBytes, upload.completesWhenFull, upload.state.rawValue, upload.metadata.raw,
                    try JSONText(upload.metadata.values),
                    upload.concatenation?.raw, try parts.map { try JSONText($0.map(\.text)) },
                    try JSONText(upload.expectedDigests),
                    Milliseconds(upload.createdAt), Milliseconds(upload.updatedAt),
                    upload.expiresAt.map(Milliseconds.init),
                    upload.endedAt.map(Milliseconds.init), upload.alias, upload.key, upload.issuer,
                    upload.reservedBytes, upload.bucket, try upload.attributes.map { try JSONText($0) },
                    upload.takesParts,
                ]
            )
            guard inserted == 1 else {
                throw UploadError(.rejected, "The name that the app gave this upload belongs to another one.")
            }
            if let parts {
                try connection.run(
                    "INSERT INTO awaited_part (part_id, final_id) SELECT DISTINCT unnest($2::text[]), $1",
                    [upload.id.text, TextArray(parts.map(\.text))]
                )
            }
            try also(connection)
            try connection.charge(Accounting.creating(upload), createdAt: upload.createdAt, under: terms)
            try connection.insert([event])
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
            // Few uploads of a key or a protocol among many others, or nearly all.
            return try connection.rows(sql, values, isPlannedAnew: true).map(Upload.init(row:))
        }
    }

    /// Each index has the id behind its own column, so a page is read from where it begins; of several states, the page of
    /// each, because together they are in no order.
    ///
    /// States stand in the text: there are few, and the planner knows how frequent each of them is.
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
        // Ids sort by the time of creation.
        require("id >=", query.createdAfter.map { UploadID.first(at: $0).text })
        require("id <", [query.before, query.createdBefore.map(UploadID.first(at:))].compactMap { $0?.text }.min())
        values.append(query.limit)
        let limit = "$\(values.count)"

        func page(_ conditions: [String]) -> String {
            let filter = conditions.isEmpty ? "" : "WHERE " + conditions.joined(separator: " AND ")
            return "SELECT \(uploadColumns) FROM upload \(filter) ORDER BY id DESC LIMIT \(limit)"
        }
        let states = query.states.count == Upload.State.allCases.count ? [] : query.states.map(\.rawValue).sorted()
        if states.isEmpty { return (page(conditions), values) }
        if query.subject != nil {
            // One user's uploads are few; the open ones of all users may be many, and are not to be read beside them.
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
        under terms: QuotaTerms,
        recording events: [EventRecord]
    ) async throws(UploadError) -> Bool {
        try await write(holding: upload.id) { connection in
            let id = upload.id
            // With its parts and what it replaces in one go, because all lock uploads in the order of their ids.
            let parts = upload.concatenation?.parts ?? []
            var known = try connection.lock([id] + parts + [replaced].compactMap { $0 })
            guard let before = known.removeValue(forKey: id), before.state == .open else { return false }
            guard before.metadata == upload.metadata else { throw UploadError.metadataChanged }
            try connection.demand(replaced, isReplacedBy: media)
            let object = replaced.flatMap { known.removeValue(forKey: $0) }
            try connection.run(
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
            try connection.run("DELETE FROM object_part WHERE upload_id = $1", [id.text])
            if !parts.isEmpty {
                let texts = TextArray(parts.map(\.text))
                try connection.run(
                    "DELETE FROM awaited_part WHERE final_id = $1 AND part_id = ANY ($2::text[])",
                    [id.text, texts]
                )
                try connection.run(
                    "UPDATE upload SET reserved_bytes = 0 WHERE id = ANY ($1::text[]) AND reserved_bytes <> 0",
                    [texts]
                )
            }
            if let object { try connection.end(object.id, as: .terminated, at: upload.updatedAt) }
            if let media { try connection.insert(media) }
            let size = upload.length ?? 0
            let changes = Accounting.completing(before, size: size, parts: Array(known.values), replacing: object)
            try connection.charge(changes, createdAt: before.createdAt, under: terms)
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
            guard let before = try connection.lock(id), before.isAlive, before.state == expected else { return false }
            try connection.end(id, as: state, at: now)
            let changes = Accounting.ending(before, received: received)
            try connection.charge(changes, createdAt: before.createdAt, under: nil)
            try connection.insert([event])
            return true
        }
    }

    package func setLength(
        of id: UploadID,
        to length: Int64,
        updatedAt: Date,
        under terms: QuotaTerms
    ) async throws(UploadError) -> Bool {
        try await write(holding: id) { connection in
            guard let before = try connection.lock(id), before.state == .open, before.length == nil else {
                return false
            }
            try connection.run(
                "UPDATE upload SET length = $2, reserved_bytes = $2, updated_at = $3 WHERE id = $1",
                [id.text, length, Milliseconds(updatedAt)]
            )
            let changes = Accounting.reserving(length, for: before)
            try connection.charge(changes, createdAt: before.createdAt, under: terms)
            return true
        }
    }

    package func reserve(_ bytes: Int64, for id: UploadID, under terms: QuotaTerms) async throws(UploadError) -> Bool {
        try await write(holding: id) { connection in
            guard let before = try connection.lock(id), before.state == .open else { return false }
            try connection.run("UPDATE upload SET reserved_bytes = $2 WHERE id = $1", [id.text, bytes])
            let changes = Accounting.reserving(bytes, for: before)
            try connection.charge(changes, createdAt: before.createdAt, under: terms)
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
            let values = try JSONText(metadata.values)
            try connection.run(
                "UPDATE upload SET metadata_raw = $2, metadata = $3, updated_at = $4 WHERE id = $1",
                [id.text, metadata.raw, values, Milliseconds(updatedAt)]
            )
            try connection.run(
                "UPDATE media SET metadata = $2, content_type = $3, filename = $4 WHERE id = $1",
                [id.text, values, metadata.contentType, metadata.filename]
            )
            try connection.insert([event])
            return true
        }
    }

    package func setExpiry(of id: UploadID, to date: Date?, updatedAt: Date) async throws(UploadError) {
        try await write(holding: id) { connection in
            try connection.run(
                "UPDATE upload SET expires_at = $2, updated_at = $3 WHERE id = $1 AND state = 'open'",
                [id.text, date.map(Milliseconds.init), Milliseconds(updatedAt)]
            )
        }
    }

    package func expiredUploads(at now: Date, limit: Int) async throws(UploadError) -> [UploadID] {
        try await read { connection in
            try connection.rows(
                "SELECT id FROM upload WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2",
                [Milliseconds(now), limit]
            ).map { try $0.uploadID("upload") }
        }
    }

    package func forgetEnded(before date: Date) async throws(UploadError) {
        let date = Milliseconds(date)
        // Short transactions, of one kind of rows each. What another node holds it is forgetting, too, or it is found the next time.
        for (table, id, condition) in [
            ("upload", "id", "state IN ('terminated', 'expired') AND ended_at < $1"),
            // A grant whose own time is over admits nothing any more, used or not.
            ("used_grant", "id", "expires_at < $1"),
            ("event", "sequence", "occurred_at < $1 AND (delivery IS NULL OR delivery = 'delivered')"),
        ] {
            let statement = """
                DELETE FROM \(table) WHERE \(id) = ANY (ARRAY(
                    SELECT \(id) FROM \(table) WHERE \(condition) LIMIT $2 FOR UPDATE SKIP LOCKED
                ))
                """
            var count = Self.forgottenAtOnce
            while count == Self.forgottenAtOnce {
                count = try await write { try $0.run(statement, [date, Self.forgottenAtOnce]) }
            }
        }
    }

    private static let forgottenAtOnce = 5000

    package func needed(_ ids: [UploadID]) async throws(UploadError) -> Set<UploadID> {
        try await read { connection in
            let found = try connection.rows(
                "SELECT id FROM upload WHERE id = ANY ($1::text[]) AND state IN ('open', 'completed')",
                [TextArray(ids.map(\.text))]
            )
            return Set(try found.map { try $0.uploadID("upload") })
        }
    }

    package func setDigests(of id: UploadID, to digests: DigestValues) async throws(UploadError) {
        try await write { connection in
            try connection.run("UPDATE media SET digests = $2 WHERE id = $1", [id.text, try JSONText(digests)])
        }
    }

    package func media(_ id: UploadID) async throws(UploadError) -> Media? {
        try await read { connection in
            try connection.row("SELECT \(Connection.mediaColumns) FROM media WHERE id = $1", [id.text])
                .map(Media.init(row:))
        }
    }
}

extension Connection {
    /// Those of `ids` that are there; nobody else changes them until the transaction ends.
    fileprivate func lock(_ ids: [UploadID]) throws -> [UploadID: Upload] {
        let found = try rows(
            "SELECT \(PostgresState.uploadColumns) FROM upload WHERE id = ANY ($1::text[]) ORDER BY id FOR UPDATE",
            [TextArray(ids.map(\.text))]
        ).map(Upload.init(row:))
        return Dictionary(uniqueKeysWithValues: found.map { ($0.id, $0) })
    }

    fileprivate func lock(_ id: UploadID) throws -> Upload? { try lock([id])[id] }

    /// Ends an upload, but for what its accounts get back, and the event.
    fileprivate func end(_ id: UploadID, as state: Upload.State, at now: Date) throws {
        try run(
            """
            UPDATE upload SET state = $2, updated_at = $3, ended_at = $3, expires_at = NULL, reserved_bytes = 0
            WHERE id = $1
            """,
            [id.text, state.rawValue, Milliseconds(now)]
        )
        try run("DELETE FROM media WHERE id = $1", [id.text])
        try run("DELETE FROM awaited_part WHERE final_id = $1", [id.text])
        try run("DELETE FROM object_part WHERE upload_id = $1", [id.text])
        try run("UPDATE pull SET next_attempt_at = NULL, sealed = '' WHERE upload_id = $1", [id.text])
    }
}
