internal import Clouds
internal import CoreMetrics
internal import Foundation
internal import HTTPServer
internal import HTTPWire
internal import ObjectGrants
internal import ObjectStore
internal import Presigning
internal import RESTKit
internal import Signing
internal import UploadCore
internal import UploadModel

/// `/v1/presigned-urls`: an app's backend mints URLs and forms for one object.
///
/// Its app sends them to the object endpoint or to a real store.
package struct PresignAPI: Sendable {
    let issuer: CredentialIssuer
    let clouds: DirectClouds
    let uploads: MultipartUploads
    let access: Access
    let minted: Counter
    /// For a cloud.
    let mintedDirectly: Counter
    let objectURL: ObjectURL
    let bodyLimit: Int
    let maximumBytes: Int64
    let clock: any WallClock
    let region: String
    /// For uploads of app users.
    let buckets: [String]

    static let defaultLifetime: Int64 = 3600
    /// Maximum number of parts in one response.
    package static let maximumParts = 1000

    var routes: [Route] {
        [
            Route(.post, "/v1/presigned-urls") { request, _ in
                await responding(request) { () throws(Problem) in try await presign(request) }
            }
        ]
    }

    /// What the URLs are for.
    private enum Purpose {
        case request(PresignedOperation)
        case form
        /// The parts of a multipart upload, which is created now unless there is an id.
        case parts([Int], uploadID: String?)

        var actions: Set<ObjectAction> {
            switch self {
            case .request(let operation): [operation.action]
            case .form: [.postObject]
            case .parts(_, nil): Self.actionsOnParts.union([.createMultipartUpload])
            case .parts: Self.actionsOnParts
            }
        }

        private static let actionsOnParts: Set<ObjectAction> = [
            .uploadPart, .listParts, .completeMultipartUpload, .abortMultipartUpload,
        ]

        /// Whether it starts an upload.
        var beginsUpload: Bool { actions.contains { $0.bringsContentType } }
    }

    private func presign(_ request: Request) async throws(Problem) -> Response {
        let wanted = try await decode(request)
        if let cloud = wanted.cloud { return try await presign(wanted, for: cloud) }
        let presigner = ObjectPresigner(
            issuer: issuer,
            vendor: wanted.vendor,
            origin: try objectURL.origin(for: request),
            region: region
        )
        var (upload, continued) = (Upload?.none, wanted)
        if case .parts(_, let id?) = wanted.purpose {
            let found = try await begun(id, wanted)
            upload = found
            // The object endpoint recognises the upload's own grant.
            continued.grant.id = found.principal
        }
        let (name, grant) = (wanted.name, wanted.grant)
        let headers = S3ObjectHeaders(contentType: wanted.exactType)
        var response = try await response(continued, presigner) { (id, _) async throws(Problem) in
            if let id { return id }
            let begun = try await access.core { () async throws(UploadError) -> Upload in
                try await uploads.begin(name, headers, for: wanted.vendor, under: grant)
            }
            upload = begun
            return begun.id.text
        }
        response.trace.uploadID = upload?.id.text
        minted.increment()
        return response
    }

    /// The multipart upload to continue, which the key has begun for this subject, or may see and end itself.
    private func begun(_ id: String, _ wanted: Wanted) async throws(Problem) -> Upload {
        try await access.core { () async throws(UploadError) -> Upload in
            let found = try await uploads.find(id, of: wanted.name)
            let key = wanted.key
            guard
                wanted.grant.hasBegun(found)
                    || key.allows(.read) && key.allows(.upload) && key.limits.covers(found)
            else { throw UploadError(.notFound, "There is no multipart upload with this id for this key.") }
            return found
        }
    }

    /// Signs for a real store with the cloud's own credentials.
    private func presign(_ wanted: Wanted, for cloud: DirectCloud) async throws(Problem) -> Response {
        var wanted = wanted
        let now = wanted.now
        let (presigner, credentials) = try await cloud.presigner()
        if let end = credentials.expiresAt, end > now.unixSeconds {
            // The grant must not outlive the credentials that sign.
            wanted.grant.expiresAt = min(wanted.grant.expiresAt, Date(timeIntervalSince1970: Double(end)))
        }
        let (name, grant) = (wanted.name, wanted.grant)
        let response = try await response(wanted, presigner) { (id, headers) async throws(Problem) in
            if let id { return id }
            let signed = try Self.minting { () throws(GrantTooLong) in
                try presigner.request(.createMultipartUpload, name, headers: headers, under: grant, at: now)
            }
            return try await cloud.asking { () async throws(CloudFailure) in
                try await CloudMultipartUpload.begin(
                    signed.url,
                    headers: headers,
                    signedWith: credentials,
                    by: cloud.caller
                )
            }
        }
        mintedDirectly.increment()
        return response
    }

    /// A decoded and permitted request.
    private struct Wanted {
        let now: Date
        let key: APIKey
        let vendor: Vendor
        /// `nil` in `relay` mode.
        let cloud: DirectCloud?
        let purpose: Purpose
        let bucket: String
        let keys: ObjectGrant.Keys
        /// A media type, or a pattern.
        let contentType: String?
        var grant: Grant

        var name: ObjectName { ObjectName(bucket: bucket, key: keys.text) }

        var exactType: String? { contentType.flatMap { $0.hasSuffix("/*") ? nil : $0 } }
    }

    private func decode(_ request: Request) async throws(Problem) -> Wanted {
        let key = try await access.limitedKey(.mint, request)
        let now = clock.now
        var fields = try await JSONFields(readingFrom: request, limit: bodyLimit)
        let purpose = purpose(in: &fields)
        let bucket = fields.bucket()
        let keys = keys(in: &fields, for: purpose)
        let subject = fields.subject()
        let lifetime =
            fields.integer("expiresIn", in: 1...ObjectPresigner.maximumLifetime) ?? Self.defaultLifetime
        var grant = Grant(
            id: Grant.newID(at: now),
            issuer: key.id,
            subject: subject,
            // Signatures have whole seconds only.
            expiresAt: Date(timeIntervalSince1970: Double(now.unixSeconds + lifetime)),
            issuedAt: now
        )
        let contentType = purpose.beginsUpload ? limit(&grant, in: &fields, for: purpose) : nil
        // Whole seconds, as above.
        try access.limit(minted: &grant, by: key, at: Date(timeIntervalSince1970: Double(now.unixSeconds)))
        let vendor = fields.objectFormat()
        let owner = subject ?? key.limits.onlySubject
        let rights = ObjectAction.rights(of: purpose.actions, for: owner, at: keys.reach(in: bucket))
        if case .scopes? = key.refusal(minting: rights) {
            fields.reject(
                "method",
                "must be what the API key may do itself: GET needs the scope `read`, DELETE needs `delete`"
            )
        }
        let cloud = clouds.wanted(vendor, bucket: bucket, in: &fields)
        if cloud != nil { Self.refuse(grant, contentType, for: purpose, in: &fields) }
        try fields.finish()
        try access.check(key, mints: rights)
        try access.checkUser(key, bucket: bucket, keys, for: vendor, isDirect: cloud != nil, among: buckets)
        grant.subject = owner
        return Wanted(
            now: now,
            key: key,
            vendor: vendor,
            cloud: cloud,
            purpose: purpose,
            bucket: bucket,
            keys: keys,
            contentType: contentType,
            grant: grant
        )
    }

    /// Rejects limits that a signature for a real store cannot express and that would be ignored.
    private static func refuse(
        _ grant: Grant,
        _ contentType: String?,
        for purpose: Purpose,
        in fields: inout JSONFields
    ) {
        if !grant.metadata.isEmpty {
            fields.reject("metadata", "must not be there in direct mode: nobody would keep it")
        }
        if grant.isOneTime { fields.reject("oneTime", "must not be true in direct mode: a URL works until it expires") }
        if case .form = purpose { return }
        if grant.maximumBytes != nil {
            fields.reject("maxBytes", "must not be there in direct mode, but for a form (`method` POST)")
        }
        if contentType?.hasSuffix("/*") == true {
            fields.reject(
                "contentType",
                "must be a media type in direct mode, and a pattern for a form (`method` POST) only"
            )
        }
    }

    /// Signs the URLs or the form.
    ///
    /// `find` looks up a multipart upload by its id; without an id it creates one with the header fields. It returns
    /// the id.
    private func response(
        _ wanted: Wanted,
        _ presigner: ObjectPresigner,
        find: (String?, [SigningField]) async throws(Problem) -> String
    ) async throws(Problem) -> Response {
        let (now, name, grant) = (clock.now, wanted.name, wanted.grant)
        let headers = wanted.exactType.map { [SigningField("Content-Type", $0)] } ?? []
        switch wanted.purpose {
        case .request(let operation):
            let signed = try Self.minting { () throws(GrantTooLong) in
                try presigner.request(operation, name, headers: headers, under: grant, at: now)
            }
            return JSONResponse.response(201, URLView(signed, expiresAt: grant.expiresAt))
        case .form:
            let form = try Self.minting { () throws(GrantTooLong) in
                try presigner.form(
                    wanted.bucket,
                    wanted.keys,
                    contentType: wanted.contentType,
                    fields: [SigningField("success_action_status", "201")],
                    under: grant,
                    at: now
                )
            }
            return JSONResponse.response(201, FormView(form, expiresAt: grant.expiresAt))
        case .parts(let numbers, let uploadID):
            let id = try await find(uploadID, headers)
            let view = try Self.minting { () throws(GrantTooLong) in
                try PartsView(id, numbers, name, presigner, grant, at: now)
            }
            return JSONResponse.response(201, view)
        }
    }

    private static func minting<Success>(
        _ body: () throws(GrantTooLong) -> Success
    ) throws(Problem) -> Success {
        do throws(GrantTooLong) {
            return try body()
        } catch {
            throw Problem(error)
        }
    }

    // MARK: Fields

    private static let methods: [(name: String, purpose: Purpose)] = [
        ("PUT", .request(.putObject)), ("GET", .request(.getObject)), ("HEAD", .request(.headObject)),
        ("DELETE", .request(.deleteObject)), ("POST", .form),
    ]

    private func purpose(in fields: inout JSONFields) -> Purpose {
        let method = fields.string("method", maximumLength: 16)
        let parts = fields.integers("parts", maximumCount: Self.maximumParts, in: PartRecord.numbers)
        let uploadID = fields.string("uploadId", maximumLength: 1024)
        if uploadID?.isEmpty == true { fields.reject("uploadId", "must not be empty") }
        if let parts {
            if method != nil { fields.reject("method", "must not be there beside `parts`") }
            return .parts(parts, uploadID: uploadID)
        }
        if uploadID != nil { fields.reject("parts", "is required beside `uploadId`: numbers of parts") }
        guard let found = Self.methods.first(where: { $0.name == method ?? "PUT" }) else {
            let names = Self.methods.map(\.name).joined(separator: ", ")
            fields.reject("method", "must be one of \(names); POST is a form")
            return .form
        }
        return found.purpose
    }

    /// The key, or for a form possibly a prefix.
    private func keys(in fields: inout JSONFields, for purpose: Purpose) -> ObjectGrant.Keys {
        var keys = ObjectGrant.Keys.only("")
        if case .form = purpose {
            keys = fields.objectKeys()
            if keys.text.contains("${filename}") {
                fields.reject("key", "must not hold ${filename}; forms with `keyPrefix` add the name of the file")
            }
        } else if let key = fields.string("key", maximumLength: S3Names.maximumKeyByteCount, isRequired: true) {
            keys = .only(key)
            if key.isEmpty { fields.reject("key", "must not be empty") }
        }
        // Clients remove such segments from URLs, which invalidates the signature.
        if keys.text.split(separator: "/").contains(where: { $0 == "." || $0 == ".." }) {
            fields.reject("key", "must not have . or .. between slashes")
        }
        return keys
    }

    /// Reads the limits of an upload into its grant.
    ///
    /// - Returns: The media type, or a pattern.
    private func limit(_ grant: inout Grant, in fields: inout JSONFields, for purpose: Purpose) -> String? {
        grant.maximumBytes = fields.integer("maxBytes", in: 0...maximumBytes)
        grant.metadata = fields.dictionary("metadata", maximumCount: 64, maximumBytes: 1024)
        let contentType = fields.string("contentType", maximumLength: 256)
        if let contentType {
            if let type = MediaType(contentType), !contentType.hasSuffix("/*") {
                grant.contentTypes = [type.essence]
            } else if MediaTypeText.isPattern(contentType) {
                grant.contentTypes = [contentType]
            } else {
                fields.reject("contentType", "must be \(MediaTypeText.hint)")
            }
        }
        if case .parts = purpose {
            if contentType?.hasSuffix("/*") == true {
                fields.reject("contentType", "must be a media type, no pattern: the upload begins now")
            }
        } else {
            grant.isOneTime = fields.bool("oneTime") ?? false
        }
        return contentType
    }

    // MARK: Responses

    private struct URLView: Encodable {
        var partNumber: Int?
        let method: String
        let url: String
        let headers: [String: String]
        var expiresAt: String?

        init(_ signed: PresignedRequest, part: Int? = nil, expiresAt: Date? = nil) {
            partNumber = part
            method = signed.method
            url = signed.url
            headers = signed.headers.reduce(into: [:]) { $0[$1.name] = $1.value }
            self.expiresAt = expiresAt.map { JSONResponse.timestamp($0) }
        }
    }

    private struct FormView: Encodable {
        let method = "POST"
        let url: String
        let fields: [String: String]
        let expiresAt: String

        init(_ form: PresignedForm, expiresAt: Date) {
            url = form.url
            fields = form.fields.reduce(into: [:]) { $0[$1.name] = $1.value }
            self.expiresAt = JSONResponse.timestamp(expiresAt)
        }
    }

    private struct PartsView: Encodable {
        let uploadId: String
        let parts: [URLView]
        let list: URLView
        let complete: URLView
        let abort: URLView
        let expiresAt: String

        init(
            _ id: String,
            _ numbers: [Int],
            _ name: ObjectName,
            _ presigner: ObjectPresigner,
            _ grant: Grant,
            at now: Date
        ) throws(GrantTooLong) {
            func url(_ operation: PresignedOperation) throws(GrantTooLong) -> URLView {
                URLView(try presigner.request(operation, name, under: grant, at: now))
            }
            uploadId = id
            parts = zip(numbers, try presigner.parts(numbers, of: id, name, under: grant, at: now)).map {
                URLView($1, part: $0)
            }
            list = try url(.listParts(uploadID: id))
            complete = try url(.completeMultipartUpload(uploadID: id))
            abort = try url(.abortMultipartUpload(uploadID: id))
            expiresAt = JSONResponse.timestamp(grant.expiresAt)
        }
    }
}

extension ObjectGrant.Keys {
    /// The key or the prefix.
    fileprivate var text: String {
        switch self {
        case .only(let key): key
        case .within(let prefix): prefix.text
        case .all: ""
        }
    }
}
