internal import GRDB
internal import StateRecords
package import UploadModel

extension SQLiteState: BlobRecords {
    package func insert(_ record: BlobRecord) async throws(UploadError) {
        try await write { database in
            try database.run(
                """
                INSERT INTO blob (id, version, state, bucket, object_key, content_type, part_size, multipart, is_beginning,
                    part_count, part_bytes, sides, crc32c, entity_tag, created_at)
                VALUES (?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """,
                [
                    record.id.text, record.state.rawValue, record.bucket, record.key, record.contentType,
                    record.partSize, record.multipart, record.isBeginning, record.partCount, record.partBytes,
                    try JSONText(record.tails), record.crc32c, record.entityTag, Milliseconds(record.createdAt),
                ]
            )
        }
    }

    package func blob(_ id: UploadID) async throws(UploadError) -> BlobRecord? {
        try await read { database in
            try database.row("SELECT * FROM blob WHERE id = ?", [id.text]).map(BlobRecord.init(row:))
        }
    }

    package func blobs(_ ids: [UploadID]) async throws(UploadError) -> [BlobRecord] {
        var found: [BlobRecord] = []
        try await inChunks(Array(Set(ids))) { database, list in
            try database.rows("SELECT * FROM blob WHERE id IN (SELECT value FROM json_each(?))", [list])
                .map(BlobRecord.init(row:))
        } each: { record in
            found.append(record)
        }
        return found
    }

    package func parts(of id: UploadID) async throws(UploadError) -> [BlobPart] {
        try await read { database in
            try database.rows("SELECT * FROM blob_part WHERE blob_id = ? ORDER BY number", [id.text])
                .map(BlobPart.init(row:))
        }
    }

    package func update(
        _ record: BlobRecord,
        adding parts: [BlobPart],
        droppingFrom first: Int?
    ) async throws(UploadError) -> Int64 {
        try await write { database in
            try database.run(
                """
                UPDATE blob SET version = version + 1, state = ?, bucket = ?, object_key = ?, content_type = ?,
                    part_size = ?, multipart = ?, is_beginning = ?, part_count = ?, part_bytes = ?, sides = ?,
                    crc32c = ?, entity_tag = ?, created_at = ?
                WHERE id = ? AND version = ?
                """,
                [
                    record.state.rawValue, record.bucket, record.key, record.contentType, record.partSize,
                    record.multipart, record.isBeginning, record.partCount, record.partBytes,
                    try JSONText(record.tails),
                    record.crc32c, record.entityTag, Milliseconds(record.createdAt), record.id.text, record.version,
                ]
            )
            guard database.changesCount == 1 else { throw BlobRecord.wasChanged }
            if let first {
                try database.run("DELETE FROM blob_part WHERE blob_id = ? AND number >= ?", [record.id.text, first])
            }
            for part in parts {
                try database.run(
                    """
                    INSERT INTO blob_part (blob_id, number, size, entity_tag) VALUES (?, ?, ?, ?)
                    ON CONFLICT (blob_id, number) DO UPDATE SET size = excluded.size, entity_tag = excluded.entity_tag
                    """,
                    [record.id.text, part.number, part.size, part.entityTag]
                )
            }
            return record.version + 1
        }
    }

    package func forgetBlob(_ id: UploadID) async throws(UploadError) {
        try await write(.reserve) { database in try database.run("DELETE FROM blob WHERE id = ?", [id.text]) }
    }

    package func blobs(after: UploadID?, limit: Int) async throws(UploadError) -> [UploadID] {
        try await read { database in
            try database.rows("SELECT id FROM blob WHERE id > ? ORDER BY id LIMIT ?", [after?.text ?? "", limit])
                .map { try $0.uploadID("blob") }
        }
    }

    package func completingBlobs(limit: Int) async throws(UploadError) -> [UploadID] {
        try await read { database in
            try database.rows(
                "SELECT id FROM blob INDEXED BY blob_completing WHERE state = 'completing' ORDER BY id LIMIT ?",
                [limit]
            ).map { try $0.uploadID("blob") }
        }
    }
}
