internal import Bytes
internal import CoreMetrics
internal import Foundation
internal import HTTPWire
internal import RESTKit
internal import UploadCore
internal import UploadModel

/// `/v1/tus`: an app's backend mints upload tokens, or creates the upload itself and hands out its URL.
struct TusAPI: Sendable {
    let service: UploadService
    let locator: UploadLocator
    let sealer: GrantSealer
    let access: Access
    let minted: Counter
    let publicURL: PublicURL
    let bodyLimit: Int
    let clock: any WallClock
    /// Those that a grant may name.
    let buckets: [String]

    /// Longest life of an upload token, in seconds.
    static let maximumLifetime: Int64 = 7 * 86_400
    static let defaultLifetime: Int64 = 3600

    var routes: [Route] {
        [
            Route(.post, "/v1/tus/tokens") { request, _ in
                await responding(request) { () throws(Problem) in try await mintToken(request) }
            },
            Route(.post, "/v1/tus/uploads") { request, _ in
                await responding(request) { () throws(Problem) in try await createUpload(request) }
            },
        ]
    }

    private struct TokenView: Encodable {
        var token: String
        var grantId: String
        var expiresAt: String
        /// Where the client creates its upload.
        var endpoint: String
    }

    private func mintToken(_ request: Request) async throws(Problem) -> Response {
        let key = try await access.limitedKey(.mint, request)
        var fields = try await JSONFields(readingFrom: request, limit: bodyLimit)
        let subject = fields.subject(isRequired: true)
        let maximumBytes = fields.integer("maxBytes", in: 0...service.limits.maximumBytes)
        let contentTypes = fields.strings(
            "contentTypes",
            maximumCount: 32,
            where: MediaTypeText.isPattern,
            MediaTypeText.hint
        )
        let lifetime = fields.integer("expiresIn", in: 1...Self.maximumLifetime) ?? Self.defaultLifetime
        let isOneTime = fields.bool("oneTime") ?? false
        let admitsObjects = fields.bool("objects") ?? false
        let bucket = bucket(in: &fields)
        let metadata = fields.dictionary("metadata", maximumCount: 64, maximumBytes: 2048)
        try fields.finish()
        try access.check(key, mints: MintedRights(subject: subject, reach: .uploads))
        let now = clock.now
        var grant = Grant(
            id: Grant.newID(at: now),
            issuer: key.id,
            subject: subject,
            dialect: "tus",
            maximumBytes: maximumBytes,
            contentTypes: contentTypes,
            bucket: bucket,
            expiresAt: now.addingTimeInterval(Double(lifetime)),
            isOneTime: isOneTime,
            metadata: metadata,
            issuedAt: now,
            admitsObjects: admitsObjects ? true : nil
        )
        try access.limit(minted: &grant, by: key, at: now)
        let view = TokenView(
            token: sealer.seal(grant),
            grantId: grant.id,
            expiresAt: JSONResponse.timestamp(grant.expiresAt),
            endpoint: publicURL.base(for: request) + "/files"
        )
        minted.increment()
        return JSONResponse.response(201, view)
    }

    private func bucket(in fields: inout JSONFields) -> String? {
        guard let bucket = fields.string("bucket", maximumLength: 63) else { return nil }
        if !buckets.contains(bucket) {
            fields.reject(
                "bucket",
                buckets.isEmpty ? "must be left out: this server has no buckets" : "must be a bucket of this server"
            )
        }
        return bucket
    }

    private func createUpload(_ request: Request) async throws(Problem) -> Response {
        let key = try await access.limitedKey(.upload, request)
        var fields = try await JSONFields(readingFrom: request, limit: bodyLimit)
        let length = fields.integer("length", in: 0...Int64.max)
        let subject = fields.subject() ?? key.limits.onlySubject
        let filename = fields.string("filename", maximumLength: 1024)
        let contentType = fields.string("contentType", maximumLength: 256)
        let bucket = bucket(in: &fields)
        var values = fields.dictionary("metadata", maximumCount: 64, maximumBytes: 4096)
        if let contentType, MediaType(contentType) == nil {
            fields.reject("contentType", "must be a media type such as video/mp4")
        }
        try fields.finish()
        try access.check(key, mints: MintedRights(subject: subject, reach: .uploads))
        if let filename { values["filename"] = filename }
        if let contentType { values["filetype"] = contentType }
        var grant = Grant(
            id: key.id,
            issuer: key.id,
            subject: subject,
            dialect: "tus",
            bucket: bucket,
            expiresAt: .distantFuture
        )
        try access.limit(minted: &grant, by: key, at: clock.now)
        let limited = grant
        let new = NewUpload(
            dialect: "tus",
            length: length,
            metadata: UploadMetadata(describing: values)
        )
        let upload = try await access.core { () throws(UploadError) in try await service.create(new, under: limited) }
        let url = publicURL.base(for: request) + "/files/" + locator.token(for: upload)
        var response = JSONResponse.response(201, UploadView(upload, url: url), ["Location": url])
        response.trace.uploadID = upload.id.text
        return response
    }
}
