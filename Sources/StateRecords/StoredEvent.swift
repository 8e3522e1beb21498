internal import Bytes
internal import Foundation
package import UploadModel

extension EventRecord {
    package init(row: StoredRow) throws {
        let table = "event"
        guard let kind = Kind(rawValue: try row.value("kind", of: table)) else {
            throw UnreadableRecord(table: table, column: "kind")
        }
        let content: StoredEvent = try row.json("content", of: table)
        let uploadID: String = try row.value("upload_id", of: table)
        guard let upload = content.upload(id: uploadID, subject: try row.optional("subject", of: table)) else {
            throw UnreadableRecord(table: table, column: "content")
        }
        self.init(
            sequence: try row.value("sequence", of: table),
            id: try row.value("id", of: table),
            kind: kind,
            upload: upload,
            request: content.request,
            occurredAt: try row.date("occurred_at", of: table),
            delivery: try Delivery(row: row)
        )
    }
}

extension EventRecord.Delivery {
    fileprivate init?(row: StoredRow) throws {
        let table = "event"
        guard let text: String = try row.optional("delivery", of: table) else { return nil }
        guard let state = State(rawValue: text) else { throw UnreadableRecord(table: table, column: "delivery") }
        self.init(
            state: state,
            attempts: try row.value("attempts", of: table),
            nextAttemptAt: try row.optionalDate("next_attempt_at", of: table),
            settledAt: try row.optionalDate("settled_at", of: table),
            lastError: try row.optional("last_error", of: table)
        )
    }
}

/// The upload at the time of the event, and the request.
///
/// Members that a later version adds must be optional.
package struct StoredEvent: Decodable {
    private let alias: String?
    private let key: String?
    private let bucket: String?
    private let attributes: ObjectAttributes?
    /// `nil` means `false`.
    private let takesParts: Bool?
    private let dialect: String
    private let principal: String
    private let issuer: String?
    private let length: Int64?
    private let offset: Int64
    private let state: String
    private let metadataRaw: String?
    private let metadata: [String: String]
    private let concatenation: String?
    private let parts: [String]?
    /// Unix milliseconds, as in other tables.
    private let createdAt: Int64
    private let updatedAt: Int64
    private let expiresAt: Int64?
    private let endedAt: Int64?
    fileprivate let request: RequestInfo?

    /// The stored text of an event, members in alphabetical order; what is `nil` or the default is left out.
    package static func json(_ event: EventRecord) throws -> JSONText {
        let upload = event.upload
        var object = JSONObjectWriter(capacity: 320 + 2 * (upload.metadata.raw?.utf8.count ?? 0))
        func milliseconds(_ date: Date) -> Int64 { Milliseconds(date).value }
        if let alias = upload.alias { object.member("alias", alias) }
        if let attributes = upload.attributes { object.member("attributes", json: try JSONText(attributes).text) }
        if let bucket = upload.bucket { object.member("bucket", bucket) }
        if let concatenation = upload.concatenation { object.member("concatenation", concatenation.raw) }
        object.member("createdAt", milliseconds(upload.createdAt))
        object.member("dialect", upload.dialect)
        if let endedAt = upload.endedAt { object.member("endedAt", milliseconds(endedAt)) }
        if let expiresAt = upload.expiresAt { object.member("expiresAt", milliseconds(expiresAt)) }
        if let issuer = upload.issuer { object.member("issuer", issuer) }
        if let key = upload.key { object.member("key", key) }
        if let length = upload.length { object.member("length", length) }
        object.member("metadata", json: JSONText(texts: upload.metadata.values).text)
        if let raw = upload.metadata.raw { object.member("metadataRaw", raw) }
        object.member("offset", upload.offset)
        if let parts = upload.concatenation?.parts { object.member("parts", parts.map(\.text)) }
        object.member("principal", upload.principal)
        if let request = event.request { object.member("request", json: try JSONText(request).text) }
        object.member("state", upload.state.rawValue)
        if upload.takesParts { object.member("takesParts", true) }
        object.member("updatedAt", milliseconds(upload.updatedAt))
        return JSONText(stored: object.text())
    }

    fileprivate func upload(id: String, subject: String?) -> Upload? {
        guard let id = UploadID(id), let state = Upload.State(rawValue: state) else { return nil }
        func date(_ milliseconds: Int64) -> Date { Date(timeIntervalSince1970: Double(milliseconds) / 1000) }
        let ids = parts?.compactMap { UploadID($0) }
        return Upload(
            id: id,
            alias: alias,
            key: key,
            bucket: bucket,
            attributes: attributes,
            takesParts: takesParts ?? false,
            dialect: dialect,
            subject: subject,
            principal: principal,
            issuer: issuer,
            length: length,
            offset: offset,
            state: state,
            metadata: UploadMetadata(raw: metadataRaw, values: metadata),
            concatenation: concatenation.map { raw in Concatenation(ids.map { .final(parts: $0) } ?? .partial, raw: raw)
            },
            createdAt: date(createdAt),
            updatedAt: date(updatedAt),
            expiresAt: expiresAt.map(date),
            endedAt: endedAt.map(date)
        )
    }
}
