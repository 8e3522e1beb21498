internal import Digests

/// A table that every state database has, for code that copies the whole state.
///
/// A database may have further tables and columns, which concern its processes and not uploads.
package struct StoredTable: Sendable {
    package enum Kind: Sendable {
        case text, integer, flag, bytes
    }

    package struct Column: Sendable {
        package let name: String
        package let kind: Kind
    }

    package let name: String
    package let columns: [Column]
    /// Number of leading columns that form the primary key.
    package let keyCount: Int

    private init(_ name: String, key: [Column], _ columns: [Column]) {
        self.name = name
        self.columns = key + columns
        keyCount = key.count
    }

    package var keyColumns: ArraySlice<Column> { columns.prefix(keyCount) }

    /// The values of `row`, in the order of the columns.
    ///
    /// - Throws: `UnreadableRecord` for a value of another type.
    package func fields(of row: StoredRow) throws(UnreadableRecord) -> [StoredField] {
        var fields: [StoredField] = []
        fields.reserveCapacity(columns.count)
        for column in columns {
            guard let field = StoredField(column, of: row) else {
                throw UnreadableRecord(table: name, column: column.name)
            }
            fields.append(field)
        }
        return fields
    }

    /// The primary key of a row.
    package func key(of row: [StoredField]) -> [StoredField] { Array(row.prefix(keyCount)) }
}

/// A value of a row, independent of the database.
package enum StoredField: Sendable, Equatable, Codable {
    case null
    case text(String)
    case integer(Int64)
    case flag(Bool)
    case bytes([UInt8])

    fileprivate init?(_ column: StoredTable.Column, of row: StoredRow) {
        let cell = row.cell(column.name)
        if cell.isNull {
            self = .null
            return
        }
        let field: StoredField? =
            switch column.kind {
            case .text: cell.text.map { .text($0) }
            case .integer: cell.integer.map { .integer($0) }
            case .flag: cell.flag.map { .flag($0) }
            case .bytes: cell.bytes.map { .bytes($0) }
            }
        guard let field else { return nil }
        self = field
    }

    /// Appends an unambiguous form of the value: different rows never have the same text.
    fileprivate func write(to text: inout [UInt8]) {
        switch self {
        case .null: text += "n;".utf8
        case .integer(let value): text += "i\(value);".utf8
        case .flag(let value): text += (value ? "t;" : "f;").utf8
        case .text(let value):
            text += "s\(value.utf8.count):".utf8
            text += value.utf8
        case .bytes(let value):
            text += "b\(value.count):".utf8
            text += value
        }
    }
}

/// The number of rows and a checksum over them that ignores their order: databases may sort differently.
package struct RowsDigest: Sendable, Equatable {
    package private(set) var count = 0
    /// The sum of the SHA-256 of all rows, as four numbers with overflow.
    private var sums = [UInt64](repeating: 0, count: 4)

    package init() {}

    package mutating func add(_ row: [StoredField]) {
        var text: [UInt8] = []
        for field in row { field.write(to: &text) }
        let hash = Digest.hash(text, .sha256)
        for index in sums.indices {
            sums[index] &+= hash[index * 8..<index * 8 + 8].reduce(0) { $0 << 8 | UInt64($1) }
        }
        count += 1
    }
}

extension StoredTable {
    /// All tables; a table comes after those that it refers to.
    package static let all = [
        StoredTable(
            "upload",
            key: [text("id")],
            [
                text("alias"), text("object_key"), text("dialect"), text("subject"), text("principal"), text("issuer"),
                integer("length"), integer("maximum_bytes"), integer("reserved_bytes"), flag("completes_when_full"),
                text("state"), text("metadata_raw"), text("metadata"), text("concatenation_raw"),
                text("concatenation_parts"), text("expected_digests"), integer("created_at"), integer("updated_at"),
                integer("expires_at"), integer("ended_at"), text("bucket"), text("attributes"), flag("takes_parts"),
            ]
        ),
        StoredTable("awaited_part", key: [text("part_id"), text("final_id")], []),
        StoredTable(
            "media",
            key: [text("id")],
            [
                text("object_key"), text("subject"), integer("size"), text("content_type"), text("filename"),
                text("metadata"), text("digests"), integer("created_at"), text("bucket"), text("attributes"),
            ]
        ),
        StoredTable(
            "object_part",
            key: [text("upload_id"), integer("number")],
            [
                integer("size"), bytes("md5"), integer("crc64"), bytes("checksum"), text("location"),
                integer("stored_at"),
            ]
        ),
        StoredTable("bucket", key: [text("name")], [integer("created_at"), text("documents")]),
        StoredTable(
            "pull",
            key: [text("upload_id")],
            [
                text("url"), text("sealed"), text("content_types"), text("validator"), integer("total"),
                integer("attempts"), integer("failures"), integer("furthest"), integer("next_attempt_at"),
                flag("is_failed"), text("error_code"), text("error_message"),
            ]
        ),
        StoredTable("used_grant", key: [text("id")], [text("upload_id"), integer("expires_at")]),
        StoredTable(
            "api_key",
            key: [text("id")],
            [
                text("name"), text("scopes"), integer("created_at"), integer("expires_at"), integer("revoked_at"),
                bytes("digest"), flag("is_preset"), text("limits"), bytes("previous_digest"), integer("previous_until"),
                integer("last_used_at"),
            ]
        ),
        StoredTable("revocation", key: [text("subject")], [integer("issued_before"), integer("created_at")]),
        StoredTable(
            "dialect_record",
            key: [text("kind"), text("key")],
            [
                text("text"), integer("version"), integer("created_at"), integer("expires_at"),
                integer("terms_version"),
            ]
        ),
        StoredTable("dialect_term", key: [text("kind"), text("term"), integer("position"), text("key")], []),
        StoredTable(
            "account",
            key: [text("kind"), text("name")],
            [
                integer("stored_bytes"), integer("reserved_bytes"), integer("open_uploads"), integer("period_start"),
                integer("period_bytes"), integer("period_uploads"), text("policy"),
            ]
        ),
        StoredTable(
            "event",
            key: [integer("sequence")],
            [
                text("id"), text("kind"), text("upload_id"), text("subject"), integer("occurred_at"), text("content"),
                text("delivery"), integer("attempts"), integer("next_attempt_at"), integer("settled_at"),
                text("last_error"),
            ]
        ),
        StoredTable(
            "blob",
            key: [text("id")],
            [
                integer("version"), text("state"), text("bucket"), text("object_key"), text("content_type"),
                integer("part_size"), text("multipart"), flag("is_beginning"), integer("part_count"),
                integer("part_bytes"), text("sides"), integer("crc32c"), text("entity_tag"), integer("created_at"),
            ]
        ),
        StoredTable(
            "blob_part",
            key: [text("blob_id"), integer("number")],
            [integer("size"), text("entity_tag")]
        ),
        StoredTable("store", key: [integer("number")], [text("id"), integer("epoch"), flag("is_sweep_approved")]),
    ]

    private static func text(_ name: String) -> Column { Column(name: name, kind: .text) }
    private static func integer(_ name: String) -> Column { Column(name: name, kind: .integer) }
    private static func flag(_ name: String) -> Column { Column(name: name, kind: .flag) }
    private static func bytes(_ name: String) -> Column { Column(name: name, kind: .bytes) }
}
