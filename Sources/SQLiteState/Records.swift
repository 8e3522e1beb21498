internal import Bytes
internal import Digests
internal import Foundation
internal import GRDB
internal import UploadCore

/// A time as the database keeps it: Unix milliseconds, the part of a millisecond cut off.
struct Milliseconds: DatabaseValueConvertible, Sendable {
    let value: Int64

    init(_ date: Date) {
        // Half a microsecond: a date made from milliseconds must give the same milliseconds back.
        let milliseconds = (date.timeIntervalSince1970 * 1000 + 0.0005).rounded(.down)
        // 9999-12-31; dates beyond are as good as never, and must not trap.
        value = Int64(max(0, min(milliseconds, 253_402_300_799_999)))
    }

    var date: Date { Date(timeIntervalSince1970: Double(value) / 1000) }

    var databaseValue: DatabaseValue { value.databaseValue }

    static func fromDatabaseValue(_ databaseValue: DatabaseValue) -> Milliseconds? {
        Int64.fromDatabaseValue(databaseValue).map { Milliseconds(Date(timeIntervalSince1970: Double($0) / 1000)) }
    }
}

/// A value as JSON text, its keys sorted.
struct JSONText: DatabaseValueConvertible, Sendable {
    let text: String

    init(_ value: some Encodable) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        text = String(decoding: try encoder.encode(value), as: UTF8.self)
    }

    private init(text: String) { self.text = text }

    func decoded<Value: Decodable>(as type: Value.Type) throws -> Value {
        try JSONDecoder().decode(type, from: Data(text.utf8))
    }

    var databaseValue: DatabaseValue { text.databaseValue }

    static func fromDatabaseValue(_ databaseValue: DatabaseValue) -> JSONText? {
        String.fromDatabaseValue(databaseValue).map { JSONText(text: $0) }
    }
}

extension JSONText {
    /// Digests, each in base64 under the name of its algorithm; `nil` if there are none.
    init?(_ digests: DigestValues) throws {
        if digests.isEmpty { return nil }
        try self.init(Dictionary(uniqueKeysWithValues: digests.map { ($0.rawValue, Base64.encode($1)) }))
    }
}

extension Row {
    func digests(_ column: String, of table: String) throws -> DigestValues {
        guard let stored: JSONText = try optional(column, of: table) else { return [:] }
        var digests: DigestValues = [:]
        for (name, text) in try stored.decoded(as: [String: String].self) {
            guard let algorithm = DigestAlgorithm(rawValue: name), let value = Base64.decode(text) else {
                throw UnreadableRecord(table: table, column: column)
            }
            digests[algorithm] = value
        }
        return digests
    }

    func value<Value: DatabaseValueConvertible>(_ column: String, of table: String) throws -> Value {
        guard let value: Value = try optional(column, of: table) else {
            throw UnreadableRecord(table: table, column: column)
        }
        return value
    }

    func optional<Value: DatabaseValueConvertible>(_ column: String, of table: String) throws -> Value? {
        let stored: DatabaseValue = self[column]
        if stored.isNull { return nil }
        guard let value = Value.fromDatabaseValue(stored) else {
            throw UnreadableRecord(table: table, column: column)
        }
        return value
    }

    func date(_ column: String, of table: String) throws -> Date {
        let time: Milliseconds = try value(column, of: table)
        return time.date
    }

    func optionalDate(_ column: String, of table: String) throws -> Date? {
        let time: Milliseconds? = try optional(column, of: table)
        return time?.date
    }

    func json<Value: Decodable>(_ column: String, of table: String) throws -> Value {
        let text: JSONText = try value(column, of: table)
        return try text.decoded(as: Value.self)
    }

    func uploadID(_ table: String) throws -> UploadID {
        let text: String = try value("id", of: table)
        guard let id = UploadID(text) else { throw UnreadableRecord(table: table, column: "id") }
        return id
    }
}

extension Upload {
    init(row: Row) throws {
        let table = "upload"
        guard let state = Upload.State(rawValue: try row.value("state", of: table)) else {
            throw UnreadableRecord(table: table, column: "state")
        }
        let length: Int64? = try row.optional("length", of: table)
        self.init(
            id: try row.uploadID(table),
            alias: try row.optional("alias", of: table),
            key: try row.optional("object_key", of: table),
            dialect: try row.value("dialect", of: table),
            subject: try row.optional("subject", of: table),
            principal: try row.value("principal", of: table),
            issuer: try row.optional("issuer", of: table),
            length: length,
            maximumBytes: try row.optional("maximum_bytes", of: table),
            offset: state == .completed ? length ?? 0 : 0,
            reservedBytes: try row.value("reserved_bytes", of: table),
            completesWhenFull: try row.value("completes_when_full", of: table),
            state: state,
            metadata: UploadMetadata(
                raw: try row.optional("metadata_raw", of: table),
                values: try row.json("metadata", of: table)
            ),
            concatenation: try Concatenation(row: row),
            expectedDigests: try row.digests("expected_digests", of: table),
            createdAt: try row.date("created_at", of: table),
            updatedAt: try row.date("updated_at", of: table),
            expiresAt: try row.optionalDate("expires_at", of: table),
            endedAt: try row.optionalDate("ended_at", of: table)
        )
    }
}

extension Concatenation {
    /// `nil` for an upload that has nothing to do with others.
    fileprivate init?(row: Row) throws {
        guard let raw: String = try row.optional("concatenation_raw", of: "upload") else { return nil }
        guard let parts: JSONText = try row.optional("concatenation_parts", of: "upload") else {
            self.init(.partial, raw: raw)
            return
        }
        let ids = try parts.decoded(as: [String].self).map { text in
            guard let id = UploadID(text) else {
                throw UnreadableRecord(table: "upload", column: "concatenation_parts")
            }
            return id
        }
        self.init(.final(parts: ids), raw: raw)
    }
}

extension Media {
    init(row: Row) throws {
        let table = "media"
        self.init(
            id: try row.uploadID(table),
            key: try row.optional("object_key", of: table),
            subject: try row.optional("subject", of: table),
            size: try row.value("size", of: table),
            contentType: try row.optional("content_type", of: table),
            filename: try row.optional("filename", of: table),
            metadata: try row.json("metadata", of: table),
            digests: try row.digests("digests", of: table),
            createdAt: try row.date("created_at", of: table)
        )
    }
}

extension APIKey {
    init(row: Row) throws {
        let table = "api_key"
        let scopes: [String] = try row.json("scopes", of: table)
        let digest: Data = try row.value("digest", of: table)
        self.init(
            id: try row.value("id", of: table),
            name: try row.value("name", of: table),
            // A scope that this version does not know allows nothing here.
            scopes: Set(scopes.compactMap(Scope.init(rawValue:))),
            createdAt: try row.date("created_at", of: table),
            expiresAt: try row.optionalDate("expires_at", of: table),
            revokedAt: try row.optionalDate("revoked_at", of: table),
            digest: [UInt8](digest),
            isPreset: try row.value("is_preset", of: table)
        )
    }
}
