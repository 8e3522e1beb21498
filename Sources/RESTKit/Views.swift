package import Foundation
internal import UploadCore
package import UploadModel

/// An upload in the REST API.
package struct UploadView: Encodable {
    package var id: String
    package var alias: String?
    package var key: String?
    package var dialect: String
    package var state: String
    package var offset: Int64
    package var length: Int64?
    package var concatenation: String?
    package var subject: String?
    package var principal: String
    package var issuer: String?
    package var filename: String?
    package var contentType: String?
    package var metadata: [String: String]
    package var createdAt: String
    package var updatedAt: String
    package var expiresAt: String?
    package var endedAt: String?
    /// Upload URL; only in the response to the creation, because it is a credential.
    package var url: String?
    /// Progress of the pull; only in responses about a single upload.
    package var pull: PullView?

    package init(_ upload: Upload, url: String? = nil) {
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
        createdAt = JSONResponse.timestamp(upload.createdAt)
        updatedAt = JSONResponse.timestamp(upload.updatedAt)
        expiresAt = upload.expiresAt.map(JSONResponse.timestamp)
        endedAt = upload.endedAt.map(JSONResponse.timestamp)
        self.url = url
    }
}

/// Media in the REST API.
package struct MediaView: Encodable {
    package var id: String
    package var key: String?
    package var size: Int64
    package var contentType: String?
    package var filename: String?
    package var subject: String?
    package var metadata: [String: String]
    package var createdAt: String
    package var etag: String
    package var url: String

    package init(_ media: Media, url: String) {
        id = media.id.text
        key = media.key
        size = media.size
        contentType = media.contentType
        filename = media.filename
        subject = media.subject
        metadata = media.metadata
        createdAt = JSONResponse.timestamp(media.createdAt)
        etag = media.entityTag
        self.url = url
    }
}

/// Media of a form, with the name of the form control.
package struct FormMediaView: Encodable {
    package var field: String
    package var media: MediaView

    package init(field: String, media: MediaView) {
        self.field = field
        self.media = media
    }

    private enum CodingKeys: String, CodingKey {
        case field
    }

    package func encode(to encoder: any Encoder) throws {
        try media.encode(to: encoder)
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(field, forKey: .field)
    }
}

/// Progress of a pull in the REST API.
package struct PullView: Encodable {
    /// Value of the upload's `dialect`.
    package static let dialect = "pull"

    package struct Failure: Encodable {
        package var code: String
        package var message: String
    }

    /// Absent once the pull has ended, because it is not kept.
    package var url: String?
    /// `waiting`, `running`, `failed`, or `ended`: the upload itself has ended, for any reason.
    package var state: String
    package var attempts: Int
    /// Content length in bytes, as reported by the origin.
    package var length: Int64?
    package var lastError: Failure?
    package var nextAttemptAt: String?

    package init(_ job: PullJob) {
        url = job.url.isEmpty ? nil : job.url
        attempts = job.attempts
        length = job.total
        lastError = job.lastError.map { Failure(code: $0.code, message: $0.message) }
        switch job.nextAttemptAt {
        case nil: state = job.isFailed ? "failed" : "ended"
        case .some where job.isFailed: state = "failed"
        case .some where job.isClaimed: state = "running"
        case .some(let date):
            state = "waiting"
            nextAttemptAt = JSONResponse.timestamp(date)
        }
    }
}

/// An API key in the REST API and in `sluice keys list --json`.
package struct KeyView: Encodable {
    package var id: String
    package var name: String
    package var scopes: [String]
    package var subjects: [String]
    package var buckets: [String]
    package var prefixes: [String]
    package var status: String
    package var preset: Bool
    package var createdAt: String
    package var expiresAt: String?
    package var revokedAt: String?
    package var previousSecretUntil: String?
    package var lastUsedAt: String?
    /// Only in the response that creates it.
    package var secret: String?

    /// - Parameters:
    ///   - key: The key.
    ///   - now: The time of day.
    ///   - lastUse: A use that is not recorded yet.
    ///   - secret: Only for a new key.
    package init(_ key: APIKey, at now: Date, lastUse: Date? = nil, secret: String? = nil) {
        id = key.id
        name = key.name
        scopes = key.scopes.map(\.rawValue).sorted()
        subjects = key.limits.subjects
        buckets = key.limits.buckets
        prefixes = key.limits.prefixes
        status = key.status(at: now).rawValue
        preset = key.isPreset
        createdAt = JSONResponse.timestamp(key.createdAt)
        expiresAt = key.expiresAt.map(JSONResponse.timestamp)
        revokedAt = key.revokedAt.map(JSONResponse.timestamp)
        previousSecretUntil = key.previous
            .flatMap { now < $0.validUntil ? JSONResponse.timestamp($0.validUntil) : nil }
        lastUsedAt = [key.lastUsedAt, lastUse].compactMap { $0 }.max().map(JSONResponse.timestamp)
        self.secret = secret
    }
}
