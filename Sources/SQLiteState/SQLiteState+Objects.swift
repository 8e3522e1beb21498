internal import Foundation
internal import GRDB
internal import StateRecords
package import UploadModel

// MARK: Parts

extension SQLiteState {
    /// Only this process records parts: no command does while a gateway uses the same data directory.
    package var sharesParts: Bool { false }

    package func putPart(_ part: PartRecord, of id: UploadID) async throws(UploadError) -> PartRecord? {
        try await write { database in
            let values: SQLiteArguments = [
                part.size, Data(part.md5), part.storedCRC64, part.checksum.map { Data($0) }, part.location,
                Milliseconds(part.storedAt),
            ]
            // Nearly all parts are new: one statement checks the upload and adds the row.
            try database.run(
                """
                INSERT INTO object_part (upload_id, number, size, md5, crc64, checksum, location, stored_at)
                SELECT id, ?, ?, ?, ?, ?, ?, ? FROM upload WHERE id = ? AND \(Database.takesParts)
                ON CONFLICT (upload_id, number) DO NOTHING
                """,
                [part.number] + values + [id.text]
            )
            if database.changesCount == 1 { return nil }
            guard try database.row("SELECT 1 FROM upload WHERE id = ? AND \(Database.takesParts)", [id.text]) != nil
            else { throw UploadError.takesNoParts }
            let before = try database.part(part.number, of: id)
            try database.run(
                """
                UPDATE object_part SET size = ?, md5 = ?, crc64 = ?, checksum = ?, location = ?, stored_at = ?
                WHERE upload_id = ? AND number = ?
                """,
                values + [id.text, part.number]
            )
            return before
        }
    }

    package func upload(_ id: UploadID, withPart number: Int) async throws(UploadError) -> (Upload, PartRecord?)? {
        try await read { database in
            guard let upload = try database.upload(id) else { return nil }
            return (upload, try database.part(number, of: id))
        }
    }

    package func objectParts(
        of id: UploadID,
        after number: Int,
        limit: Int
    ) async throws(UploadError) -> [PartRecord] {
        try await read { database in
            try database.rows(
                "SELECT * FROM object_part WHERE upload_id = ? AND number > ? ORDER BY number LIMIT ?",
                [id.text, number, limit]
            ).map(PartRecord.init(row:))
        }
    }

    package func objectPart(_ number: Int, of id: UploadID) async throws(UploadError) -> PartRecord? {
        try await read { database in try database.part(number, of: id) }
    }

    package func partBytes(of id: UploadID) async throws(UploadError) -> Int64 {
        try await read { database in
            try database.row(
                "SELECT coalesce(sum(size), 0) AS bytes FROM object_part WHERE upload_id = ?",
                [id.text]
            )?.value("bytes", of: "object_part") ?? 0
        }
    }

    package func partBytes(of ids: [UploadID]) async throws(UploadError) -> [UploadID: Int64] {
        var sums: [UploadID: Int64] = [:]
        try await inChunks(ids) { database, list in
            try database.rows(
                """
                SELECT upload_id AS id, sum(size) AS bytes FROM object_part
                WHERE upload_id IN (SELECT value FROM json_each(?)) GROUP BY upload_id
                """,
                [list]
            ).map { (try $0.uploadID("object_part"), try $0.value("bytes", of: "object_part") as Int64) }
        } each: { id, bytes in
            sums[id] = bytes
        }
        return sums
    }

    package func setAttributes(
        of id: UploadID,
        to attributes: ObjectAttributes
    ) async throws(UploadError) -> Bool {
        try await write { database in
            let values: SQLiteArguments = [try JSONText(attributes), id.text]
            try database.run(
                "UPDATE upload SET attributes = ? WHERE id = ? AND state IN ('open', 'completed')",
                values
            )
            guard database.changesCount == 1 else { return false }
            try database.run("UPDATE media SET attributes = ? WHERE id = ?", values)
            return true
        }
    }

    package func partUploads(_ query: PartUploadQuery) async throws(UploadError) -> [Upload] {
        try await read { database in
            let (sql, arguments) = Self.statement(of: query)
            return try database.rows(sql, arguments).map(Upload.init(row:))
        }
    }

    static func statement(of query: PartUploadQuery) -> (sql: String, arguments: SQLiteArguments) {
        let keys = KeyRange(prefix: query.prefix, after: query.after)
        var conditions = "state = 'open' AND bucket = ? AND takes_parts = 1"
        var arguments: SQLiteArguments = [query.bucket, keys.lower]
        if let id = query.afterID, !keys.includesLower {
            conditions += " AND (object_key, id) > (?, ?)"
            arguments += [id.text]
        } else {
            conditions += " AND object_key \(keys.includesLower ? ">=" : ">") ?"
        }
        if let upper = keys.upper {
            conditions += " AND object_key < ?"
            arguments += [upper]
        }
        arguments += [query.limit]
        return (
            """
            SELECT * FROM upload INDEXED BY upload_open_by_name WHERE \(conditions) ORDER BY object_key, id LIMIT ?
            """,
            arguments
        )
    }
}

// MARK: Objects

extension SQLiteState {
    package func object(_ name: ObjectName) async throws(UploadError) -> Media? {
        try await read { database in try database.object(name) }
    }

    package func objects(_ query: ObjectQuery) async throws(UploadError) -> [ObjectSummary] {
        try await read { database in
            let (sql, arguments) = Self.statement(of: query)
            return try database.rows(sql, arguments).map(ObjectSummary.init(row:))
        }
    }

    static func statement(of query: ObjectQuery) -> (sql: String, arguments: SQLiteArguments) {
        let (keys, values) = KeyRange(prefix: query.prefix, after: query.after).condition(on: "object_key") { _ in "?" }
        return (
            """
            SELECT id, object_key, size, created_at, json_extract(attributes, '$.entityTag') AS entity_tag,
                json_extract(attributes, '$.checksum.algorithm') AS checksum_algorithm,
                json_extract(attributes, '$.checksum.isComposite') AS checksum_is_composite,
                json_extract(attributes, '$.checksum.value') AS checksum_value,
                json_extract(attributes, '$.isAppendable') AS is_appendable,
                json_type(attributes, '$.partSizes') IS NOT NULL AS has_parts, NULL AS attributes
            FROM media INDEXED BY media_by_name WHERE bucket = ? AND \(keys) ORDER BY object_key LIMIT ?
            """,
            [query.bucket] + SQLiteArguments(values) + [query.limit]
        )
    }
}

// MARK: Buckets

extension SQLiteState {
    package func insert(_ bucket: BucketRecord) async throws(UploadError) -> Bool {
        try await write { database in
            try database.run(
                "INSERT INTO bucket (name, created_at, documents) VALUES (?, ?, ?) ON CONFLICT (name) DO NOTHING",
                [bucket.name, Milliseconds(bucket.createdAt), try JSONText(bucket.documents)]
            )
            return database.changesCount == 1
        }
    }

    package func bucket(_ name: String) async throws(UploadError) -> BucketRecord? {
        try await read { database in try database.bucket(name) }
    }

    package func buckets() async throws(UploadError) -> [BucketRecord] {
        try await read { database in
            try database.rows("SELECT * FROM bucket ORDER BY name").map(BucketRecord.init(row:))
        }
    }

    package func setDocument(
        _ name: String,
        to text: String?,
        ofBucket bucket: String
    ) async throws(UploadError) -> Bool {
        try await write { database in
            guard var record = try database.bucket(bucket) else { return false }
            record.documents[name] = text
            try database.run(
                "UPDATE bucket SET documents = ? WHERE name = ?",
                [try JSONText(record.documents), bucket]
            )
            return true
        }
    }

    package func removeBucket(_ name: String) async throws(UploadError) -> Bool {
        try await write(.reserve) { database in
            let isEmpty = try Database.uses(ofBucket: name).allSatisfy { sql, arguments in
                try database.row(sql, arguments) == nil
            }
            guard isEmpty else { return false }
            try database.run("DELETE FROM bucket WHERE name = ?", [name])
            return true
        }
    }
}

extension Database {
    /// Queries that find an object or an open upload in a bucket.
    static func uses(ofBucket name: String) -> [(sql: String, arguments: SQLiteArguments)] {
        [
            ("SELECT 1 FROM media INDEXED BY media_by_name WHERE bucket = ? LIMIT 1", [name]),
            ("SELECT 1 FROM upload INDEXED BY upload_open_by_name WHERE state = 'open' AND bucket = ? LIMIT 1", [name]),
        ]
    }

    func bucket(_ name: String) throws -> BucketRecord? {
        try row("SELECT * FROM bucket WHERE name = ?", [name]).map(BucketRecord.init(row:))
    }

    /// Without its documents, which only few calls need.
    func hasBucket(_ name: String) throws -> Bool {
        try row("SELECT 1 FROM bucket WHERE name = ?", [name]) != nil
    }

    /// The same as `Upload.isTakingParts`.
    fileprivate static var takesParts: String {
        "state = 'open' AND takes_parts = 1 AND json_type(attributes, '$.completing') IS NULL"
    }

    fileprivate func part(_ number: Int, of id: UploadID) throws -> PartRecord? {
        try row("SELECT * FROM object_part WHERE upload_id = ? AND number = ?", [id.text, number])
            .map(PartRecord.init(row:))
    }

    fileprivate func object(_ name: ObjectName) throws -> Media? { try media("*", of: name).map(Media.init(row:)) }

    private func media(_ columns: String, of name: ObjectName) throws -> StoredRow? {
        try row(
            "SELECT \(columns) FROM media INDEXED BY media_by_name WHERE bucket = ? AND object_key = ?",
            [name.bucket, name.key]
        )
    }

    /// The upload of the object that `media` replaces.
    ///
    /// - Parameters:
    ///   - expected: The id that the replaced object must have.
    ///   - media: The new media with the name.
    /// - Returns: `nil` if the name is free, or `media` is not an object.
    /// - Throws: `UploadError.objectChanged` if another object has the name.
    func replaced(_ expected: UploadID?, by media: Media?) throws -> Upload? {
        let current = try media?.objectName.flatMap { try self.media("id", of: $0) }?.uploadID("media")
        guard current == expected else { throw UploadError.objectChanged }
        return try expected.flatMap(upload)
    }
}
