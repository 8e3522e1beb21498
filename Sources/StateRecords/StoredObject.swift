package import UploadModel

extension StoredRow {
    /// Attributes of the object that an upload becomes, or of media.
    func attributes(_ table: String) throws -> ObjectAttributes? {
        let text: JSONText? = try optional("attributes", of: table)
        return try text?.attributes()
    }
}

extension ObjectSummary {
    /// - Parameter row: With the values of the attributes that a listing needs, or with all attributes.
    /// - Throws: `UnreadableRecord`.
    package init(row: StoredRow) throws {
        let table = "media"
        let attributes = try row.attributes(table)
        self.init(
            id: try row.uploadID(table),
            key: try row.value("object_key", of: table),
            size: try row.value("size", of: table),
            createdAt: try row.date("created_at", of: table),
            entityTag: try attributes?.entityTag ?? row.optional("entity_tag", of: table),
            checksum: try attributes?.checksum ?? ObjectChecksum(row: row),
            isAppendable: try attributes?.isAppendable ?? row.optional("is_appendable", of: table) ?? false,
            hasParts: try attributes.map { $0.partSizes != nil } ?? row.optional("has_parts", of: table) ?? false
        )
    }
}

extension ObjectChecksum {
    fileprivate init?(row: StoredRow) throws {
        let table = "media"
        guard let name: String = try row.optional("checksum_algorithm", of: table) else { return nil }
        guard let algorithm = Algorithm(rawValue: name) else {
            throw UnreadableRecord(table: table, column: "attributes")
        }
        self.init(algorithm, isComposite: try row.optional("checksum_is_composite", of: table) ?? false)
        // A list of numbers, as the encoder of attributes writes bytes.
        guard let list: String = try row.optional("checksum_value", of: table) else { return }
        let numbers = list.utf8.dropFirst().dropLast().split(separator: UInt8(ascii: ","))
        let bytes = numbers.compactMap { UInt8(Substring($0)) }
        guard bytes.count == numbers.count else { throw UnreadableRecord(table: table, column: "attributes") }
        value = bytes
    }
}

extension PartRecord {
    package init(row: StoredRow) throws {
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
    package init(row: StoredRow) throws {
        let table = "bucket"
        self.init(
            name: try row.value("name", of: table),
            createdAt: try row.date("created_at", of: table),
            documents: try row.json("documents", of: table)
        )
    }
}
