internal import StateRecords
package import UploadModel

// MARK: Parts

extension PostgresState {
    fileprivate static let partColumns = "number, size, md5, crc64, checksum, location, stored_at"

    package func putPart(_ part: PartRecord, of id: UploadID) async throws(UploadError) -> PartRecord? {
        try await write(holding: id) { connection in
            if connection.attempt == 1 {
                try connection.add(part, to: id)
                return nil
            }
            // Shared, because parts arrive concurrently; ending the upload or starting its completion waits for them.
            let upload = try connection.row(
                "SELECT \(Self.uploadColumns) FROM upload WHERE id = $1 FOR SHARE",
                [id.text]
            ).map(Upload.init(row:))
            guard let upload, upload.isTakingParts else { throw UploadError.takesNoParts }
            let values = PostgresState.values(of: part, id)
            // If two transactions add the same new number, the second waits here for the first, then sees its row.
            let added = try connection.run(
                """
                INSERT INTO object_part (upload_id, \(Self.partColumns)) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
                ON CONFLICT (upload_id, number) DO NOTHING
                """,
                values
            )
            if added == 1 { return nil }
            let before = try connection.row(
                "SELECT \(Self.partColumns) FROM object_part WHERE upload_id = $1 AND number = $2 FOR UPDATE",
                [id.text, part.number]
            ).map(PartRecord.init(row:))
            connection.send(
                """
                UPDATE object_part SET size = $3, md5 = $4, crc64 = $5, checksum = $6, location = $7, stored_at = $8
                WHERE upload_id = $1 AND number = $2
                """,
                values
            )
            return before
        }
    }

    /// All values, in the order of the columns.
    fileprivate static func values(of part: PartRecord, _ id: UploadID) -> [(any Parameter)?] {
        [
            id.text, part.number, part.size, part.md5, part.storedCRC64, part.checksum, part.location,
            Milliseconds(part.storedAt),
        ]
    }

    package func objectParts(
        of id: UploadID,
        after number: Int,
        limit: Int
    ) async throws(UploadError) -> [PartRecord] {
        try await read { connection in
            try connection.rows(
                """
                SELECT \(Self.partColumns) FROM object_part WHERE upload_id = $1 AND number > $2
                ORDER BY number LIMIT $3
                """,
                [id.text, number, limit]
            ).map(PartRecord.init(row:))
        }
    }

    package func objectPart(_ number: Int, of id: UploadID) async throws(UploadError) -> PartRecord? {
        try await read { connection in
            try connection.row(
                "SELECT \(Self.partColumns) FROM object_part WHERE upload_id = $1 AND number = $2",
                [id.text, number]
            ).map(PartRecord.init(row:))
        }
    }

    package func partBytes(of id: UploadID) async throws(UploadError) -> Int64 {
        try await read { connection in
            try connection.row(
                "SELECT coalesce(sum(size), 0)::bigint AS bytes FROM object_part WHERE upload_id = $1",
                [id.text]
            )?.value("bytes", of: "object_part") ?? 0
        }
    }

    package func partBytes(of ids: [UploadID]) async throws(UploadError) -> [UploadID: Int64] {
        try await read { connection in
            let found = try connection.rows(
                """
                SELECT upload_id AS id, sum(size)::bigint AS bytes FROM object_part
                WHERE upload_id = ANY ($1::text[]) GROUP BY upload_id
                """,
                [TextArray(ids.map(\.text))]
            )
            return Dictionary(
                uniqueKeysWithValues: try found.map { row in
                    (try row.uploadID("object_part"), try row.value("bytes", of: "object_part") as Int64)
                }
            )
        }
    }

    package func setAttributes(
        of id: UploadID,
        to attributes: ObjectAttributes
    ) async throws(UploadError) -> Bool {
        try await write(holding: id) { connection in
            let values: [(any Parameter)?] = [id.text, try JSONText(attributes)]
            let changed = connection.send(
                "UPDATE upload SET attributes = $2 WHERE id = $1 AND state IN ('open', 'completed')",
                values
            )
            // An upload without media, or that ended, has none to change.
            connection.send("UPDATE media SET attributes = $2 WHERE id = $1", values)
            try connection.commit()
            return changed.count == 1
        }
    }

    package func partUploads(_ query: PartUploadQuery) async throws(UploadError) -> [Upload] {
        try await read { connection in
            let (sql, values) = Self.statement(of: query)
            return try connection.rows(sql, values).map(Upload.init(row:))
        }
    }

    static func statement(of query: PartUploadQuery) -> (sql: String, values: [(any Parameter)?]) {
        let keys = KeyRange(prefix: query.prefix, after: query.after)
        var conditions = "state = 'open' AND bucket = $1 AND takes_parts"
        var values: [(any Parameter)?] = [query.bucket, query.limit, keys.lower]
        if let id = query.afterID, !keys.includesLower {
            values.append(id.text)
            conditions += " AND (\(Connection.key), id) > ($3, $4)"
        } else {
            conditions += " AND \(Connection.key) \(keys.includesLower ? ">=" : ">") $3"
        }
        if let upper = keys.upper {
            values.append(upper)
            conditions += " AND \(Connection.key) < $\(values.count)"
        }
        return (
            """
            SELECT \(uploadColumns) FROM upload WHERE \(conditions)
            ORDER BY \(Connection.key), id LIMIT $2
            """,
            values
        )
    }
}

// MARK: Objects

extension PostgresState {
    package func object(_ name: ObjectName) async throws(UploadError) -> Media? {
        try await read { connection in try connection.object(name) }
    }

    package func objects(_ query: ObjectQuery) async throws(UploadError) -> [ObjectSummary] {
        try await read { connection in
            let (sql, values) = Self.statement(of: query)
            return try connection.rows(sql, values).map(ObjectSummary.init(row:))
        }
    }

    /// PostgreSQL takes nothing from JSON that has U+0000 in any text: such attributes are returned whole.
    static func statement(of query: ObjectQuery) -> (sql: String, values: [(any Parameter)?]) {
        let (keys, values) = KeyRange(prefix: query.prefix, after: query.after)
            .condition(on: Connection.key) { "$\($0 + 3)" }
        return (
            """
            SELECT id, object_key, size, created_at, json ->> 'entityTag' AS entity_tag,
                json #>> '{checksum,algorithm}' AS checksum_algorithm,
                (json #>> '{checksum,isComposite}')::boolean AS checksum_is_composite,
                json #>> '{checksum,value}' AS checksum_value,
                (json ->> 'isAppendable')::boolean AS is_appendable,
                (json -> 'partSizes') IS NOT NULL AS has_parts,
                CASE WHEN json IS NULL THEN attributes END AS attributes
            FROM (
                SELECT *, CASE WHEN strpos(attributes, '\\u0000') = 0 THEN attributes::json END AS json FROM media
            ) AS media
            WHERE bucket = $1 AND \(keys)
            ORDER BY \(Connection.key) LIMIT $2
            """,
            [query.bucket, query.limit] + values
        )
    }
}

// MARK: Buckets

extension PostgresState {
    private static let bucketColumns = "name, created_at, documents"

    package func insert(_ bucket: BucketRecord) async throws(UploadError) -> Bool {
        try await write { connection in
            try connection.run(
                "INSERT INTO bucket (\(Self.bucketColumns)) VALUES ($1, $2, $3) ON CONFLICT (name) DO NOTHING",
                [bucket.name, Milliseconds(bucket.createdAt), try JSONText(bucket.documents)]
            ) == 1
        }
    }

    package func bucket(_ name: String) async throws(UploadError) -> BucketRecord? {
        try await read { connection in
            try connection.row("SELECT \(Self.bucketColumns) FROM bucket WHERE name = $1", [name])
                .map(BucketRecord.init(row:))
        }
    }

    package func buckets() async throws(UploadError) -> [BucketRecord] {
        try await read { connection in
            try connection.rows("SELECT \(Self.bucketColumns) FROM bucket ORDER BY name")
                .map(BucketRecord.init(row:))
        }
    }

    package func setDocument(
        _ name: String,
        to text: String?,
        ofBucket bucket: String
    ) async throws(UploadError) -> Bool {
        try await write { connection in
            // The lock mode of an update that keeps the name: uploads may be created concurrently.
            let found = try connection.row(
                "SELECT \(Self.bucketColumns) FROM bucket WHERE name = $1 FOR NO KEY UPDATE",
                [bucket]
            ).map(BucketRecord.init(row:))
            guard var record = found else { return false }
            record.documents[name] = text
            try connection.run(
                "UPDATE bucket SET documents = $2 WHERE name = $1",
                [bucket, try JSONText(record.documents)]
            )
            return true
        }
    }

    package func removeBucket(_ name: String) async throws(UploadError) -> Bool {
        try await write { connection in
            // Waits for uploads that are being created in the bucket; later ones no longer find it.
            try connection.run("SELECT FROM bucket WHERE name = $1 FOR UPDATE", [name])
            // Both at once, because an open upload may become an object meanwhile. Ordered by an index, which the
            // planner would otherwise skip for a scan of the whole table: that finds an object soon in a full bucket,
            // and never in an empty one.
            let use = try connection.row(
                """
                (SELECT 1 FROM media WHERE bucket = $1 ORDER BY \(Connection.key) LIMIT 1)
                UNION ALL
                (SELECT 1 FROM upload WHERE state = 'open' AND bucket = $1 ORDER BY takes_parts LIMIT 1)
                """,
                [name]
            )
            guard use == nil else { return false }
            try connection.run("DELETE FROM bucket WHERE name = $1", [name])
            return true
        }
    }
}

extension Connection {
    /// The key of an object, compared byte by byte.
    fileprivate static let key = #"object_key COLLATE "C""#

    static let mediaColumns = """
        id, object_key, bucket, attributes, subject, size, content_type, filename, metadata, digests, created_at
        """

    /// Adds a part that is expected to be new to an upload that is expected to take parts; otherwise the transaction is
    /// run again, and finds out.
    fileprivate func add(_ part: PartRecord, to id: UploadID) throws {
        // A key of this name is also there if a client chose it for its metadata.
        send(
            """
            SELECT \(Self.demand("count(*) = 1")) FROM (
                SELECT FROM upload WHERE id = $1 AND state = 'open' AND takes_parts
                    AND (attributes IS NULL OR strpos(attributes, '"completing":') = 0) FOR SHARE
            ) AS taking
            """,
            [id.text]
        )
        send(
            """
            WITH added AS (
                INSERT INTO object_part (upload_id, \(PostgresState.partColumns)) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
                ON CONFLICT (upload_id, number) DO NOTHING RETURNING 1
            )
            SELECT \(Self.demand("count(*) = 1")) FROM added
            """,
            PostgresState.values(of: part, id)
        )
    }

    /// Keeps a bucket from being removed until the transaction ends; refuses with `UploadError.noBucket`.
    func keepBucket(_ name: String) {
        send(
            """
            SELECT \(Self.demand("count(*) = 1")) FROM (SELECT FROM bucket WHERE name = $1 FOR KEY SHARE) AS kept
            """,
            [name],
            refusal: .noBucket
        )
    }

    fileprivate func object(_ name: ObjectName) throws -> Media? {
        let reply = sendSearch(for: name)
        try flush()
        return try reply.row.map(Media.init(row:))
    }

    /// Finds the object of this name, with the next round trip.
    func sendSearch(for name: ObjectName) -> Reply {
        send(
            "SELECT \(Self.mediaColumns) FROM media WHERE bucket = $1 AND \(Self.key) = $2",
            [name.bucket, name.key]
        )
    }

    /// Refuses with `UploadError.objectChanged` if another object has taken the name.
    func insert(_ media: Media) throws {
        // Waits for another transaction that is inserting media with this name.
        send(
            """
            WITH added AS (
                INSERT INTO media (\(Self.mediaColumns)) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
                ON CONFLICT (bucket, \(Self.key)) WHERE bucket IS NOT NULL DO NOTHING RETURNING 1
            )
            SELECT \(Self.demand("count(*) = 1")) FROM added
            """,
            [
                media.id.text, media.key, media.bucket, try media.attributes.map { try JSONText($0) }, media.subject,
                media.size, media.contentType, media.filename, JSONText(texts: media.metadata),
                JSONText(media.digests), Milliseconds(media.createdAt),
            ],
            refusal: .objectChanged
        )
    }
}
