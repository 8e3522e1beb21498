package import UploadModel

extension BlobRecord {
    package init(row: StoredRow) throws {
        let table = "blob"
        guard let state = State(rawValue: try row.value("state", of: table)) else {
            throw UnreadableRecord(table: table, column: "state")
        }
        let checksum: Int64? = try row.optional("crc32c", of: table)
        let crc32c = checksum.flatMap { UInt32(exactly: $0) }
        if checksum != nil, crc32c == nil { throw UnreadableRecord(table: table, column: "crc32c") }
        self.init(
            id: try row.uploadID(table),
            version: try row.value("version", of: table),
            state: state,
            bucket: try row.value("bucket", of: table),
            key: try row.value("object_key", of: table),
            contentType: try row.optional("content_type", of: table),
            partSize: try row.value("part_size", of: table),
            createdAt: try row.date("created_at", of: table)
        )
        multipart = try row.optional("multipart", of: table)
        isBeginning = try row.value("is_beginning", of: table)
        partCount = try row.value("part_count", of: table)
        partBytes = try row.value("part_bytes", of: table)
        tails = try row.json("sides", of: table)
        self.crc32c = crc32c
        entityTag = try row.optional("entity_tag", of: table)
    }
}

extension BlobPart {
    package init(row: StoredRow) throws {
        let table = "blob_part"
        self.init(
            number: try row.value("number", of: table),
            size: try row.value("size", of: table),
            entityTag: try row.value("entity_tag", of: table)
        )
    }
}
