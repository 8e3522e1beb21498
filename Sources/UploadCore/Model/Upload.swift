internal import Bytes
package import Foundation

/// Bytes on their way.
package struct Upload: Sendable, Equatable {
    package enum State: String, Sendable, CaseIterable {
        /// More bytes may come.
        case open
        /// All bytes are stored, and unless the upload is partial there is media with its id.
        case completed
        /// Given up by the client; the bytes are gone.
        case terminated
        /// Given up by the server because its time was over; the bytes are gone.
        case expired
    }

    package let id: UploadID
    /// The name that the app gave it (tusd's `ChangeFileInfo.ID`); unique while the record is kept.
    package var alias: String?
    /// Where the app wants the object, in its own words; a name, not a path of this machine.
    ///
    /// With `bucket` it is the key of the object that the upload becomes.
    package var key: String?
    /// The bucket of the object endpoint in which it becomes an object; `nil` if it does not.
    package var bucket: String?
    /// Of what becomes an object only.
    package var attributes: ObjectAttributes?
    /// Its bytes come in parts (see `PartStorage`), and not one behind the other.
    package var takesParts: Bool
    /// The protocol that created it, such as `tus`.
    package var dialect: String
    /// The app user on whose behalf it was created.
    package var subject: String?
    /// The API key or upload token that admitted it; never a secret.
    package var principal: String
    /// The API key that admitted it, itself or by a token that it minted.
    package var issuer: String?
    /// Final size in bytes; `nil` while the client has not told it.
    package var length: Int64?
    /// Most bytes that its grant allows; `nil` leaves the server's own limit.
    package var maximumBytes: Int64?
    /// Bytes that are stored; in an open upload the state store does not know this: see `UploadService`.
    package var offset: Int64
    /// Bytes that its accounts keep free for it; see `Accounting`.
    package var reservedBytes: Int64
    /// With its last byte it is complete; otherwise somebody has to say so (see `Finish`).
    package var completesWhenFull: Bool
    package var state: State
    package var metadata: UploadMetadata
    /// `nil` for an upload that has nothing to do with others.
    package var concatenation: Concatenation?
    /// What all its bytes must hash to.
    package var expectedDigests: DigestValues
    package var createdAt: Date
    package var updatedAt: Date
    /// After this moment an upload is removed that is open, or partial; `nil` for never.
    package var expiresAt: Date?
    /// When it was completed, terminated or expired.
    package var endedAt: Date?

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
        self.id = id
        self.alias = alias
        self.key = key
        self.bucket = bucket
        self.attributes = attributes
        self.takesParts = takesParts
        self.dialect = dialect
        self.subject = subject
        self.principal = principal
        self.issuer = issuer
        self.length = length
        self.maximumBytes = maximumBytes
        self.offset = offset
        self.reservedBytes = reservedBytes
        self.completesWhenFull = completesWhenFull
        self.state = state
        self.metadata = metadata
        self.concatenation = concatenation
        self.expectedDigests = expectedDigests
        self.createdAt = createdAt
        self.updatedAt = updatedAt ?? createdAt
        self.expiresAt = expiresAt
        self.endedAt = endedAt
    }
}

/// What the client says about its upload.
package struct UploadMetadata: Sendable, Equatable {
    /// The text exactly as the client sent it (tus 1.0.0 `Upload-Metadata`); `nil` if it sent none.
    package var raw: String?
    /// Decoded values that are UTF-8; others are left out, they live on in `raw`.
    package var values: [String: String]

    package init(raw: String? = nil, values: [String: String] = [:]) {
        self.raw = raw
        self.values = values
    }

    /// Values that did not come as a tus field, with the text that they would have had.
    package init(describing values: [String: String]) {
        let pairs = values.sorted { $0.key < $1.key }
            .map { $0.value.isEmpty ? $0.key : "\($0.key) \(Base64.encode($0.value.utf8))" }
        self.init(raw: pairs.isEmpty ? nil : pairs.joined(separator: ","), values: values)
    }

    /// The file name by the field's usual keys (`filename`, `name`).
    package var filename: String? { values["filename"] ?? values["name"] }

    /// The media type by the field's usual keys (`filetype`, `type`).
    package var contentType: String? { values["filetype"] ?? values["type"] }
}

/// What an upload becomes when it is complete; it has the id of its upload.
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
    /// Digests of all the bytes that are known; others are computed when they are asked for.
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

    /// What a complete upload becomes.
    ///
    /// - Parameters:
    ///   - upload: Completed.
    ///   - digests: Those that are known of all its bytes.
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

    /// The strong entity tag of the content: it never changes, so its id is enough (RFC 9110 §8.8.3).
    package var entityTag: String { "\"\(id.text)\"" }
}

extension Upload {
    /// What the object is called that it becomes; `nil` if it becomes none.
    package var objectName: ObjectName? {
        guard let bucket, let key else { return nil }
        return ObjectName(bucket: bucket, key: key)
    }

    /// Whether its bytes are needed: it has not ended.
    package var isAlive: Bool { state == .open || state == .completed }

    /// Whether parts may be added: it is made of parts, open, and its completion was not begun.
    package var isTakingParts: Bool { state == .open && takesParts && attributes?.completing == nil }
}

extension Media {
    /// What the object is called that it is; `nil` if it is none.
    package var objectName: ObjectName? {
        guard let bucket, let key else { return nil }
        return ObjectName(bucket: bucket, key: key)
    }
}
