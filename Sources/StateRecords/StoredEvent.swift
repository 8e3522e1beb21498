internal import Foundation
package import UploadCore

extension EventRecord {
    package init(row: some StoredRow) throws {
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
    fileprivate init?(row: some StoredRow) throws {
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
package struct StoredEvent: Codable {
    private var alias: String?
    private var key: String?
    private var bucket: String?
    private var attributes: ObjectAttributes?
    /// `nil` means `false`.
    private var takesParts: Bool?
    private var dialect: String
    private var principal: String
    private var issuer: String?
    private var length: Int64?
    private var offset: Int64
    private var state: String
    private var metadataRaw: String?
    private var metadata: [String: String]
    private var concatenation: String?
    private var parts: [String]?
    /// Unix milliseconds, as in other tables.
    private var createdAt: Int64
    private var updatedAt: Int64
    private var expiresAt: Int64?
    private var endedAt: Int64?
    fileprivate var request: RequestInfo?

    package init(_ event: EventRecord) {
        let upload = event.upload
        alias = upload.alias
        key = upload.key
        bucket = upload.bucket
        attributes = upload.attributes
        takesParts = upload.takesParts ? true : nil
        dialect = upload.dialect
        principal = upload.principal
        issuer = upload.issuer
        length = upload.length
        offset = upload.offset
        state = upload.state.rawValue
        metadataRaw = upload.metadata.raw
        metadata = upload.metadata.values
        concatenation = upload.concatenation?.raw
        parts = upload.concatenation?.parts?.map(\.text)
        createdAt = Milliseconds(upload.createdAt).value
        updatedAt = Milliseconds(upload.updatedAt).value
        expiresAt = upload.expiresAt.map { Milliseconds($0).value }
        endedAt = upload.endedAt.map { Milliseconds($0).value }
        request = event.request
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
