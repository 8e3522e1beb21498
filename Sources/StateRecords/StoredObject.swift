package import UploadCore

extension StoredRow {
    /// Attributes of the object that an upload becomes, or of media.
    func attributes(_ table: String) throws -> ObjectAttributes? {
        let text: JSONText? = try optional("attributes", of: table)
        return try text?.decoded(as: ObjectAttributes.self)
    }
}

extension PartRecord {
    package init(row: some StoredRow) throws {
        let table = "object_part"
        let crc64: Int64 = try row.value("crc64", of: table)
        self.init(
            number: try row.value("number", of: table),
            size: try row.value("size", of: table),
            md5: try row.value("md5", of: table),
            crc64: UInt64(bitPattern: crc64),
            checksum: try row.optional("checksum", of: table),
            location: try row.value("location", of: table),
            storedAt: try row.date("stored_at", of: table)
        )
    }

    /// The same bits as a signed number, because databases have no unsigned ones.
    package var storedCRC64: Int64 { Int64(bitPattern: crc64) }
}

extension BucketRecord {
    package init(row: some StoredRow) throws {
        let table = "bucket"
        self.init(
            name: try row.value("name", of: table),
            createdAt: try row.date("created_at", of: table),
            documents: try row.json("documents", of: table)
        )
    }
}
