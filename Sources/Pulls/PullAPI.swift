internal import Bytes
internal import Foundation
internal import HTTPWire
internal import RESTKit
internal import UploadCore
internal import UploadModel

/// `/v1/media/pull`: an app's backend makes the gateway fetch an upload from a URL.
struct PullAPI: Sendable {
    let starter: PullStarter
    let access: Access
    let publicURL: PublicURL
    let maximumBytes: Int64
    let bodyLimit: Int

    var routes: [Route] {
        [
            Route(.post, "/v1/media/pull") { request, _ in
                await responding(request) { () throws(Problem) in try await pull(request) }
            }
        ]
    }

    private func pull(_ request: Request) async throws(Problem) -> Response {
        let key = try await access.appKey(.upload, request)
        guard let pulls = starter.pulls else {
            throw Problem(403, "forbidden", "pulling is disabled on this server (pull.enabled)")
        }
        var fields = try await JSONFields(readingFrom: request, limit: bodyLimit)
        let reach = starter.reach(of: key)
        let url = address(&fields, within: reach)
        let subject = fields.subject() ?? key.limits.onlySubject
        let filename = fields.string("filename", maximumLength: 1024)
        let contentType = fields.string("contentType", maximumLength: 256)
        if let contentType, MediaType(contentType) == nil {
            fields.reject("contentType", "must be a media type such as video/mp4")
        }
        let contentTypes = fields.strings(
            "contentTypes",
            maximumCount: 32,
            where: MediaTypeText.isPattern,
            MediaTypeText.hint
        )
        let most = fields.integer("maxBytes", in: 0...maximumBytes)
        var values = fields.dictionary("metadata", maximumCount: 64, maximumBytes: 4096)
        let headers = headers(&fields)
        try fields.finish()
        try access.check(key, subject: subject)
        guard let url else { throw Problem.invalidFields([.init(field: "url", message: "is required: a string")]) }
        if let filename { values["filename"] = filename }
        if let contentType { values["filetype"] = contentType }
        let new = starter.upload(
            from: url,
            within: reach,
            headers: headers,
            metadata: values,
            contentTypes: contentTypes
        )
        let grant = Grant(
            id: key.id,
            issuer: key.id,
            subject: subject,
            dialect: PullView.dialect,
            maximumBytes: most,
            // The origin's content type is known only later.
            contentTypes: new.metadata.contentType == nil ? [] : contentTypes,
            expiresAt: .distantFuture
        )
        let (upload, job) = try await access.core { () throws(UploadError) in
            let upload = try await pulls.begin(new, under: grant)
            return (upload, try await pulls.job(of: upload.id))
        }
        var view = UploadView(upload)
        view.pull = job.map(PullView.init)
        let location = "\(publicURL.base(for: request))/v1/uploads/\(upload.id)"
        var response = JSONResponse.response(202, view, ["Location": location])
        response.trace.uploadID = upload.id.text
        return response
    }

    private func address(_ fields: inout JSONFields, within reach: PullReach) -> String? {
        guard let text = fields.string("url", maximumLength: 8192, isRequired: true) else { return nil }
        if let problem = starter.problem(with: text, within: reach) { fields.reject("url", problem) }
        return text
    }

    private func headers(_ fields: inout JSONFields) -> [PullRequest.Header] {
        let headers = fields.dictionary("headers", maximumCount: 32, maximumBytes: 8192)
        for (name, value) in headers {
            if FieldName(name) == nil || !value.utf8.allSatisfy(HTTPCharacters.isFieldValue) {
                fields.reject("headers", "must hold valid field names and values (RFC 9110 §5)")
            } else if Self.ownHeaders.contains(name.lowercasedASCII()) || name.lowercasedASCII().hasPrefix("proxy-") {
                fields.reject("headers", "must not hold \(name.lowercasedASCII()), which the gateway sets itself")
            }
        }
        return headers.sorted { $0.key < $1.key }.map { PullRequest.Header(name: $0.key, value: $0.value) }
    }

    /// Fields for the connection, the message framing, and resuming.
    private static let ownHeaders: Set<String> = [
        "host", "connection", "keep-alive", "te", "trailer", "upgrade", "expect", "content-length", "transfer-encoding",
        "accept-encoding", "range", "if-range", "if-match", "if-none-match", "if-modified-since", "if-unmodified-since",
    ]
}
