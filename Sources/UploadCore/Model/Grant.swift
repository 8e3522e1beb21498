package import Foundation

/// Who may upload what; everything that is minted is a grant in a dialect's clothes.
package struct Grant: Sendable, Equatable, Codable {
    /// Names the grant in logs, and makes a one-time grant one-time.
    package var id: String
    /// The API key that minted it, or is it; its use is counted.
    package var issuer: String?
    /// The app user on whose behalf uploads are made.
    package var subject: String?
    /// The protocol it is for, such as `tus`; `nil` for any.
    package var dialect: String?
    /// Most bytes of one upload; `nil` leaves the server's own limit.
    package var maximumBytes: Int64?
    /// Allowed media types of the declared content, `type/subtype` or `type/*`; empty for any.
    package var contentTypes: [String]
    package var expiresAt: Date
    /// Where the object is to be kept, if the storage has several places; `nil` for the usual one.
    package var bucket: String?
    /// Admits one upload only.
    package var isOneTime: Bool
    /// The app's own data; copied to the upload, and the client can not override it.
    package var metadata: [String: String]
    /// When it was minted; `nil` in tokens of earlier versions.
    package var issuedAt: Date?
    /// Whether it may be turned into credentials for the object endpoint, too; `nil` is no.
    package var admitsObjects: Bool?

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
        admitsObjects: Bool? = nil
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
    }

    private static let idPrefix = "grant_"

    /// An id for a grant that is minted now.
    package static func newID(at now: Date) -> String { idPrefix + UploadID.generate(at: now).text }

    /// When it was minted, for comparing with revocations; of a grant of an earlier version its id tells that.
    package var issueTime: Date {
        if let issuedAt { return issuedAt }
        guard id.hasPrefix(Self.idPrefix) else { return .distantPast }
        return UploadID(id.dropFirst(Self.idPrefix.count))?.createdAt ?? .distantPast
    }
}
