internal import StateRecords
package import UploadModel

extension PostgresState: BlobRecords {
    private static let columns = """
        id, version, state, bucket, object_key, content_type, part_size, multipart, is_beginning, part_count, part_bytes,
        sides, crc32c, entity_tag, created_at
        """

    package func insert(_ record: BlobRecord) async throws(UploadError) {
        try await write { connection in
            _ = connection.send(
                """
                INSERT INTO blob (\(Self.columns))
                VALUES ($1, 1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
                """,
                try Self.values(of: record)
            )
        }
    }

    /// All values but the version, in the order of the columns.
    fileprivate static func values(of record: BlobRecord) throws -> [(any Parameter)?] {
        [
            record.id.text, record.state.rawValue, record.bucket, record.key, record.contentType, record.partSize,
            record.multipart, record.isBeginning, record.partCount, record.partBytes, try JSONText(record.tails),
            record.crc32c.map(Int64.init), record.entityTag, Milliseconds(record.createdAt),
        ]
    }

    package func blob(_ id: UploadID) async throws(UploadError) -> BlobRecord? {
        try await read { connection in
            try connection.row("SELECT \(Self.columns) FROM blob WHERE id = $1", [id.text])
                .map(BlobRecord.init(row:))
        }
    }

    package func blobs(_ ids: [UploadID]) async throws(UploadError) -> [BlobRecord] {
        try await read { connection in
            try connection.rows(
                "SELECT \(Self.columns) FROM blob WHERE id = ANY ($1::text[])",
                [TextArray(ids.map(\.text))]
            ).map(BlobRecord.init(row:))
        }
    }

    package func parts(of id: UploadID) async throws(UploadError) -> [BlobPart] {
        try await read { connection in
            try connection.rows(
                "SELECT number, size, entity_tag FROM blob_part WHERE blob_id = $1 ORDER BY number",
                [id.text]
            ).map(BlobPart.init(row:))
        }
    }

    package func update(
        _ record: BlobRecord,
        adding parts: [BlobPart],
        droppingFrom first: Int?
    ) async throws(UploadError) -> Int64 {
        try await write(holding: record.id) { connection in
            try connection.update(record, adding: parts, droppingFrom: first)
        }
    }

    package func forgetBlob(_ id: UploadID) async throws(UploadError) {
        try await write(holding: id) { connection in
            _ = connection.send("DELETE FROM blob WHERE id = $1", [id.text])
        }
    }

    package func blobs(after: UploadID?, limit: Int) async throws(UploadError) -> [UploadID] {
        try await read { connection in
            try connection.rows(
                "SELECT id FROM blob WHERE id > $1 ORDER BY id LIMIT $2",
                [after?.text ?? "", limit]
            ).map { try $0.uploadID("blob") }
        }
    }

    package func completingBlobs(limit: Int) async throws(UploadError) -> [UploadID] {
        try await read { connection in
            try connection.rows("SELECT id FROM blob WHERE state = 'completing' ORDER BY id LIMIT $1", [limit])
                .map { try $0.uploadID("blob") }
        }
    }
}

extension Connection {
    /// Implements `BlobRecords.update` within a transaction.
    ///
    /// The transaction holds the row of the blob, so the parts need no lock of their own.
    func update(_ record: BlobRecord, adding parts: [BlobPart], droppingFrom first: Int?) throws -> Int64 {
        send(
            """
            WITH changed AS (
                UPDATE blob SET version = version + 1, state = $2, bucket = $3, object_key = $4, content_type = $5,
                    part_size = $6, multipart = $7, is_beginning = $8, part_count = $9, part_bytes = $10, sides = $11,
                    crc32c = $12, entity_tag = $13, created_at = $14
                WHERE id = $1 AND version = $15 RETURNING 1
            )
            SELECT \(Self.demand("count(*) = 1")) FROM changed
            """,
            try PostgresState.values(of: record) + [record.version],
            refusal: BlobRecord.wasChanged
        )
        if let first {
            send("DELETE FROM blob_part WHERE blob_id = $1 AND number >= $2", [record.id.text, first])
        }
        put(parts, into: record.id)
        // Without a trap: that the version is the recorded one is known only after this.
        return record.version &+ 1
    }

    /// Adds parts; replaces those with the same numbers.
    private func put(_ parts: [BlobPart], into blob: UploadID) {
        if parts.isEmpty { return }
        // A statement cannot change a row twice; among parts with the same number, the last one wins.
        let latest = Dictionary(parts.map { ($0.number, $0) }, uniquingKeysWith: { $1 }).values
        send(
            """
            INSERT INTO blob_part (blob_id, number, size, entity_tag)
            SELECT $1, number, size, entity_tag
            FROM unnest($2::bigint[], $3::bigint[], $4::text[]) AS added (number, size, entity_tag)
            ON CONFLICT (blob_id, number) DO UPDATE SET size = excluded.size, entity_tag = excluded.entity_tag
            """,
            [
                blob.text, IntegerArray(latest.map { Int64($0.number) }), IntegerArray(latest.map(\.size)),
                TextArray(latest.map(\.entityTag)),
            ]
        )
    }
}
