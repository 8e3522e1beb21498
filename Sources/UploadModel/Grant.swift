package import Foundation

/// A permission to upload; everything that is minted is a grant in the format of a dialect.
package struct Grant: Sendable, Equatable, Codable {
    /// Identifies the grant in logs, and records the use of a one-time grant.
    package var id: String
    /// The API key that minted it, or that it represents; usage counts for this key.
    package var issuer: String?
    /// The app user on whose behalf uploads are made.
    package var subject: String?
    /// The dialect for which it is valid, such as `tus`; `nil` for any.
    package var dialect: String?
    /// Maximum size of one upload in bytes; `nil` applies the server's limit.
    package var maximumBytes: Int64?
    /// Allowed declared media types, `type/subtype` or `type/*`; empty allows any.
    package var contentTypes: [String]
    package var expiresAt: Date
    /// The bucket for the object, if the storage has several; `nil` for the default.
    package var bucket: String?
    /// Whether it allows a single upload only.
    package var isOneTime: Bool
    /// The app's own data; copied to the upload, and not overridable by the client.
    package var metadata: [String: String]
    /// When it was minted; `nil` in tokens of earlier versions.
    package var issuedAt: Date?
    /// Whether it may also be exchanged for credentials for the object endpoint; `nil` means no.
    package var admitsObjects: Bool?
    /// Maximum bytes of media and uploads of its subject, besides the limits of policies; `nil` for no other limit.
    package var storedBytes: Int64?

    package init(
        id: String,
        issuer: String? = nil,
        subject: String?,
        dialect: String? = nil,
        maximumBytes: Int64? = nil,
        contentTypes: [String] = [],
        bucket: String? = nil,
        expiresAt: Date,
        isOneTime: Bool = false,
        metadata: [String: String] = [:],
        issuedAt: Date? = nil,
        admitsObjects: Bool? = nil,
        storedBytes: Int64? = nil
    ) {
        self.id = id
        self.issuer = issuer
        self.subject = subject
        self.dialect = dialect
        self.maximumBytes = maximumBytes
        self.contentTypes = contentTypes
        self.bucket = bucket
        self.expiresAt = expiresAt
        self.isOneTime = isOneTime
        self.metadata = metadata
        self.issuedAt = issuedAt
        self.admitsObjects = admitsObjects
        self.storedBytes = storedBytes
    }

    /// Whether an upload was begun under this grant, or under another one that the same key minted for the same subject.
    package func hasBegun(_ upload: Upload) -> Bool {
        upload.principal == id || upload.issuer == issuer && upload.subject.isSameSubject(as: subject)
    }

    private static let idPrefix = "grant_"

    /// Creates an id for a grant that is minted now.
    package static func newID(at now: Date) -> String { idPrefix + UploadID.generate(at: now).text }

    /// When it was minted, for comparison with revocations; for grants of earlier versions it is taken from the id.
    package var issueTime: Date {
        if let issuedAt { return issuedAt }
        guard id.hasPrefix(Self.idPrefix) else { return .distantPast }
        return UploadID(id.dropFirst(Self.idPrefix.count))?.createdAt ?? .distantPast
    }
}
