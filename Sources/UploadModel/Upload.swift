internal import Bytes
package import Foundation

/// Bytes that are being uploaded, and their record.
package struct Upload: Sendable, Equatable {
    package enum State: String, Sendable, CaseIterable {
        /// Accepts more bytes.
        case open
        /// All bytes are stored; unless the upload is partial, there is media with its id.
        case completed
        /// Cancelled by the client; the bytes are removed.
        case terminated
        /// Expired and ended by the server; the bytes are removed.
        case expired
    }

    package var id: UploadID { fields.id }
    /// The app-assigned name (tusd's `ChangeFileInfo.ID`); unique while the record is kept.
    package var alias: String? {
        get { fields.alias }
        _modify { yield &fields.alias }
    }
    /// Where the app wants the object, in its own terms; a name, not a file path.
    ///
    /// With `bucket`, it is the key of the resulting object.
    package var key: String? {
        get { fields.key }
        _modify { yield &fields.key }
    }
    /// The bucket of the object endpoint that will contain the object; `nil` if the upload becomes no object.
    package var bucket: String? {
        get { fields.bucket }
        _modify { yield &fields.bucket }
    }
    /// Set only if the upload becomes an object.
    package var attributes: ObjectAttributes? {
        get { fields.attributes }
        _modify { yield &fields.attributes }
    }
    /// Whether its bytes arrive in parts (see `PartStorage`) instead of sequentially.
    package var takesParts: Bool {
        get { fields.takesParts }
        _modify { yield &fields.takesParts }
    }
    /// The protocol that created it, such as `tus`.
    package var dialect: String {
        get { fields.dialect }
        _modify { yield &fields.dialect }
    }
    /// The app user on whose behalf it was created.
    package var subject: String? {
        get { fields.subject }
        _modify { yield &fields.subject }
    }
    /// The API key or upload token that admitted it; never a secret.
    package var principal: String {
        get { fields.principal }
        _modify { yield &fields.principal }
    }
    /// The API key that admitted it, itself or by a token that it minted.
    package var issuer: String? {
        get { fields.issuer }
        _modify { yield &fields.issuer }
    }
    /// Final size in bytes; `nil` until the client declares it.
    package var length: Int64? {
        get { fields.length }
        _modify { yield &fields.length }
    }
    /// Maximum size in bytes under its grant; `nil` applies the server's limit.
    package var maximumBytes: Int64? {
        get { fields.maximumBytes }
        _modify { yield &fields.maximumBytes }
    }
    /// Number of stored bytes; the state store does not know it for an open upload: see `UploadLifecycle`.
    package var offset: Int64 {
        get { fields.offset }
        _modify { yield &fields.offset }
    }
    /// Bytes reserved for it in its accounts; see `Accounting`.
    package var reservedBytes: Int64 {
        get { fields.reservedBytes }
        _modify { yield &fields.reservedBytes }
    }
    /// Whether the last byte completes it; otherwise completion must be explicit (see `Finish`).
    package var completesWhenFull: Bool {
        get { fields.completesWhenFull }
        _modify { yield &fields.completesWhenFull }
    }
    package var state: State {
        get { fields.state }
        _modify { yield &fields.state }
    }
    package var metadata: UploadMetadata {
        get { fields.metadata }
        _modify { yield &fields.metadata }
    }
    /// `nil` for an ordinary upload.
    package var concatenation: Concatenation? {
        get { fields.concatenation }
        _modify { yield &fields.concatenation }
    }
    /// Expected digests of all its bytes.
    package var expectedDigests: DigestValues {
        get { fields.expectedDigests }
        _modify { yield &fields.expectedDigests }
    }
    package var createdAt: Date {
        get { fields.createdAt }
        _modify { yield &fields.createdAt }
    }
    package var updatedAt: Date {
        get { fields.updatedAt }
        _modify { yield &fields.updatedAt }
    }
    /// When an open or partial upload expires; `nil` for never.
    package var expiresAt: Date? {
        get { fields.expiresAt }
        _modify { yield &fields.expiresAt }
    }
    /// When it was completed, terminated or expired.
    package var endedAt: Date? {
        get { fields.endedAt }
        _modify { yield &fields.endedAt }
    }

    package init(
        id: UploadID,
        alias: String? = nil,
        key: String? = nil,
        bucket: String? = nil,
        attributes: ObjectAttributes? = nil,
        takesParts: Bool = false,
        dialect: String,
        subject: String?,
        principal: String,
        issuer: String? = nil,
        length: Int64?,
        maximumBytes: Int64? = nil,
        offset: Int64 = 0,
        reservedBytes: Int64 = 0,
        completesWhenFull: Bool = true,
        state: State = .open,
        metadata: UploadMetadata = UploadMetadata(),
        concatenation: Concatenation? = nil,
        expectedDigests: DigestValues = [:],
        createdAt: Date,
        updatedAt: Date? = nil,
        expiresAt: Date? = nil,
        endedAt: Date? = nil
    ) {
        box = Box(
            Fields(
                id: id,
                alias: alias,
                key: key,
                bucket: bucket,
                attributes: attributes,
                takesParts: takesParts,
                dialect: dialect,
                subject: subject,
                principal: principal,
                issuer: issuer,
                length: length,
                maximumBytes: maximumBytes,
                offset: offset,
                reservedBytes: reservedBytes,
                completesWhenFull: completesWhenFull,
                state: state,
                metadata: metadata,
                concatenation: concatenation,
                expectedDigests: expectedDigests,
                createdAt: createdAt,
                updatedAt: updatedAt ?? createdAt,
                expiresAt: expiresAt,
                endedAt: endedAt
            )
        )
    }

    package static func == (one: Upload, other: Upload) -> Bool {
        one.box === other.box || one.box.fields == other.box.fields
    }

    /// The values of an upload; see its properties.
    private struct Fields: Sendable, Equatable {
        let id: UploadID
        var alias: String?
        var key: String?
        var bucket: String?
        var attributes: ObjectAttributes?
        var takesParts: Bool
        var dialect: String
        var subject: String?
        var principal: String
        var issuer: String?
        var length: Int64?
        var maximumBytes: Int64?
        var offset: Int64
        var reservedBytes: Int64
        var completesWhenFull: Bool
        var state: State
        var metadata: UploadMetadata
        var concatenation: Concatenation?
        var expectedDigests: DigestValues
        var createdAt: Date
        var updatedAt: Date
        var expiresAt: Date?
        var endedAt: Date?
    }

    /// Changed only while one upload has it, which `isKnownUniquelyReferenced` says.
    private final class Box: @unchecked Sendable {
        var fields: Fields

        init(_ fields: Fields) { self.fields = fields }
    }

    /// On the heap, because every asynchronous function on the way of a byte keeps copies in its frame.
    private var box: Box

    private var fields: Fields {
        get { box.fields }
        _modify {
            if !isKnownUniquelyReferenced(&box) { box = Box(box.fields) }
            yield &box.fields
        }
    }
}

/// Metadata that the client sends with its upload.
package struct UploadMetadata: Sendable, Equatable {
    /// The text exactly as the client sent it (tus 1.0.0 `Upload-Metadata`); `nil` if it sent none.
    package var raw: String?
    /// Decoded values that are valid UTF-8; all others remain only in `raw`.
    package var values: [String: String]

    package init(raw: String? = nil, values: [String: String] = [:]) {
        self.raw = raw
        self.values = values
    }

    /// Creates metadata from values that did not arrive as a tus field; `raw` is their tus encoding.
    package init(describing values: [String: String]) {
        let pairs = values.sorted { $0.key < $1.key }
            .map { $0.value.isEmpty ? $0.key : "\($0.key) \(Base64.encode($0.value.utf8))" }
        self.init(raw: pairs.isEmpty ? nil : pairs.joined(separator: ","), values: values)
    }

    package static func == (one: UploadMetadata, other: UploadMetadata) -> Bool {
        one.raw.map { ExactText($0) } == other.raw.map { ExactText($0) } && one.values.count == other.values.count
            && one.values.allSatisfy { name, value in
                guard let index = other.values.index(forKey: name) else { return false }
                let (otherName, otherValue) = other.values[index]
                return otherName.isExactly(name) && otherValue.isExactly(value)
            }
    }

    /// The file name, from the field's usual keys (`filename`, `name`).
    package var filename: String? { values["filename"] ?? values["name"] }

    /// The media type, from the field's usual keys (`filetype`, `type`).
    package var contentType: String? { values["filetype"] ?? values["type"] }
}

/// The result of a complete upload; has the upload's id.
package struct Media: Sendable, Equatable {
    package let id: UploadID
    /// See `Upload.key`.
    package var key: String?
    /// See `Upload.bucket`.
    package var bucket: String?
    /// See `Upload.attributes`.
    package var attributes: ObjectAttributes?
    package var subject: String?
    /// Bytes.
    package var size: Int64
    package var contentType: String?
    package var filename: String?
    package var metadata: [String: String]
    /// Known digests of all bytes; others are computed on request.
    package var digests: DigestValues
    package var createdAt: Date

    package init(
        id: UploadID,
        key: String? = nil,
        bucket: String? = nil,
        attributes: ObjectAttributes? = nil,
        subject: String?,
        size: Int64,
        contentType: String?,
        filename: String?,
        metadata: [String: String],
        digests: DigestValues = [:],
        createdAt: Date
    ) {
        self.id = id
        self.key = key
        self.bucket = bucket
        self.attributes = attributes
        self.subject = subject
        self.size = size
        self.contentType = contentType
        self.filename = filename
        self.metadata = metadata
        self.digests = digests
        self.createdAt = createdAt
    }

    /// Creates the media of a complete upload.
    ///
    /// - Parameters:
    ///   - upload: Completed.
    ///   - digests: Known digests of all its bytes.
    package init(of upload: Upload, digests: DigestValues = [:]) {
        self.init(
            id: upload.id,
            key: upload.key,
            bucket: upload.bucket,
            attributes: upload.attributes,
            subject: upload.subject,
            size: upload.offset,
            contentType: upload.metadata.contentType,
            filename: upload.metadata.filename,
            metadata: upload.metadata.values,
            digests: digests,
            createdAt: upload.endedAt ?? upload.updatedAt
        )
    }

    /// The strong entity tag: the content never changes, so the id is enough (RFC 9110 §8.8.3).
    package var entityTag: String { "\"\(id.text)\"" }
}

extension Upload {
    /// The name of the object that the upload becomes; `nil` if it becomes none.
    package var objectName: ObjectName? {
        guard let bucket, let key else { return nil }
        return ObjectName(bucket: bucket, key: key)
    }

    /// Whether its bytes are needed because it has not ended.
    package var isAlive: Bool { state == .open || state == .completed }

    /// Whether there is media of this upload: it is complete, and no part of another one.
    package var isMedia: Bool { state == .completed && concatenation?.role != .partial }

    /// Whether parts may be added: it takes parts, is open, and its completion was not started.
    package var isTakingParts: Bool { state == .open && takesParts && attributes?.completing == nil }
}

extension Media {
    /// The name of the object; `nil` if the media is not an object.
    package var objectName: ObjectName? {
        guard let bucket, let key else { return nil }
        return ObjectName(bucket: bucket, key: key)
    }
}
