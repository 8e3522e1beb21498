internal import Foundation
internal import UploadCore

/// An upload as the REST API shows it.
struct UploadView: Encodable {
    var id: String
    var alias: String?
    var key: String?
    var dialect: String
    var state: String
    var offset: Int64
    var length: Int64?
    var concatenation: String?
    var subject: String?
    var principal: String
    var issuer: String?
    var filename: String?
    var contentType: String?
    var metadata: [String: String]
    var createdAt: String
    var updatedAt: String
    var expiresAt: String?
    var endedAt: String?
    /// Where its bytes go; only in the answer to its creation, because it is a credential.
    var url: String?
    /// How it is fetched; only in answers about one upload.
    var pull: PullView?

    init(_ upload: Upload, url: String? = nil) {
        id = upload.id.text
        alias = upload.alias
        key = upload.key
        dialect = upload.dialect
        state = upload.state.rawValue
        offset = upload.offset
        length = upload.length
        concatenation = upload.concatenation.map { $0.parts == nil ? "partial" : "final" }
        subject = upload.subject
        principal = upload.principal
        issuer = upload.issuer
        filename = upload.metadata.filename
        contentType = upload.metadata.contentType
        metadata = upload.metadata.values
        createdAt = JSONAnswer.timestamp(upload.createdAt)
        updatedAt = JSONAnswer.timestamp(upload.updatedAt)
        expiresAt = upload.expiresAt.map(JSONAnswer.timestamp)
        endedAt = upload.endedAt.map(JSONAnswer.timestamp)
        self.url = url
    }
}

/// Media as the REST API shows them.
struct MediaView: Encodable {
    var id: String
    var key: String?
    var size: Int64
    var contentType: String?
    var filename: String?
    var subject: String?
    var metadata: [String: String]
    var createdAt: String
    var etag: String
    var url: String

    init(_ media: Media, url: String) {
        id = media.id.text
        key = media.key
        size = media.size
        contentType = media.contentType
        filename = media.filename
        subject = media.subject
        metadata = media.metadata
        createdAt = JSONAnswer.timestamp(media.createdAt)
        etag = media.entityTag
        self.url = url
    }
}
