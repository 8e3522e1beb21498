internal import Foundation
package import UploadModel

extension Upload {
    package init(row: StoredRow) throws {
        let table = "upload"
        guard let state = Upload.State(rawValue: try row.value("state", of: table)) else {
            throw UnreadableRecord(table: table, column: "state")
        }
        let length: Int64? = try row.optional("length", of: table)
        self.init(
            id: try row.uploadID(table),
            alias: try row.optional("alias", of: table),
            key: try row.optional("object_key", of: table),
            bucket: try row.optional("bucket", of: table),
            attributes: try row.attributes(table),
            takesParts: try row.value("takes_parts", of: table),
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
                values: try row.texts("metadata", of: table)
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
    /// `nil` for an upload without related uploads.
    fileprivate init?(row: StoredRow) throws {
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
    package init(row: StoredRow) throws {
        let table = "media"
        self.init(
            id: try row.uploadID(table),
            key: try row.optional("object_key", of: table),
            bucket: try row.optional("bucket", of: table),
            attributes: try row.attributes(table),
            subject: try row.optional("subject", of: table),
            size: try row.value("size", of: table),
            contentType: try row.optional("content_type", of: table),
            filename: try row.optional("filename", of: table),
            metadata: try row.texts("metadata", of: table),
            digests: try row.digests("digests", of: table),
            createdAt: try row.date("created_at", of: table)
        )
    }
}

extension APIKey {
    package init(row: StoredRow) throws {
        let table = "api_key"
        let scopes: [String] = try row.json("scopes", of: table)
        let limits: JSONText? = try row.optional("limits", of: table)
        let previous: [UInt8]? = try row.optional("previous_digest", of: table)
        let previousEnd = try row.optionalDate("previous_until", of: table)
        self.init(
            id: try row.value("id", of: table),
            name: try row.value("name", of: table),
            // A scope that this version does not know grants nothing here.
            scopes: Set(scopes.compactMap(Scope.init(rawValue:))),
            createdAt: try row.date("created_at", of: table),
            expiresAt: try row.optionalDate("expires_at", of: table),
            revokedAt: try row.optionalDate("revoked_at", of: table),
            digest: try row.value("digest", of: table),
            isPreset: try row.value("is_preset", of: table),
            limits: try limits?.decoded(as: KeyLimits.self) ?? KeyLimits(),
            previous: previous.flatMap { digest in
                previousEnd.map { APIKey.PreviousSecret(digest: digest, validUntil: $0) }
            },
            lastUsedAt: try row.optionalDate("last_used_at", of: table)
        )
    }
}

extension Revocation {
    package init(row: StoredRow) throws {
        let table = "revocation"
        let subject: String = try row.value("subject", of: table)
        self.init(
            subject: subject.isEmpty ? nil : subject,
            issuedBefore: try row.date("issued_before", of: table),
            createdAt: try row.date("created_at", of: table)
        )
    }
}

extension DialectRecord {
    package init(row: StoredRow) throws {
        let table = "dialect_record"
        self.init(
            kind: try row.value("kind", of: table),
            key: try row.value("key", of: table),
            text: try row.value("text", of: table),
            version: try row.value("version", of: table),
            createdAt: try row.date("created_at", of: table),
            expiresAt: try row.optionalDate("expires_at", of: table)
        )
    }
}

extension UsageTotals {
    /// - Parameter row: Sums of columns of `account`, under their names.
    /// - Throws: `UnreadableRecord`.
    package init(row: StoredRow) throws {
        self.init(
            openUploads: try row.value("open_uploads", of: "account"),
            storedBytes: try row.value("stored_bytes", of: "account")
        )
    }
}

extension AccountRecord {
    package init(row: StoredRow) throws {
        let table = "account"
        var usage = Usage(periodStart: try row.date("period_start", of: table))
        usage.storedBytes = try row.value("stored_bytes", of: table)
        usage.reservedBytes = try row.value("reserved_bytes", of: table)
        usage.openUploads = try row.value("open_uploads", of: table)
        usage.periodBytes = try row.value("period_bytes", of: table)
        usage.periodUploads = try row.value("period_uploads", of: table)
        let policy: JSONText? = try row.optional("policy", of: table)
        self.init(usage: usage, policy: try policy?.decoded(as: Policy.self))
    }
}

extension PullJob {
    package init(row: StoredRow) throws {
        let table = "pull"
        let text: String = try row.value("upload_id", of: table)
        guard let id = UploadID(text) else { throw UnreadableRecord(table: table, column: "upload_id") }
        var lastError: Reason?
        if let code: String = try row.optional("error_code", of: table) {
            lastError = Reason(code: code, message: try row.optional("error_message", of: table) ?? "")
        }
        self.init(
            uploadID: id,
            subject: try row.optional("subject", of: table),
            url: try row.value("url", of: table),
            sealed: try row.value("sealed", of: table),
            contentTypes: try row.json("content_types", of: table),
            validator: try row.optional("validator", of: table),
            total: try row.optional("total", of: table),
            attempts: try row.value("attempts", of: table),
            failures: try row.value("failures", of: table),
            furthest: try row.value("furthest", of: table),
            nextAttemptAt: try row.optionalDate("next_attempt_at", of: table),
            isFailed: try row.value("is_failed", of: table),
            lastError: lastError
        )
    }
}
