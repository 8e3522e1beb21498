internal import Foundation
internal import HTTPServer
internal import HTTPWire
internal import UploadCore

/// `/v1/uploads`: what happened to uploads.
struct UploadsAPI: Sendable {
    let service: UploadService
    let locator: UploadLocator
    let access: Access

    var routes: [Route] {
        [
            Route(.get, "/v1/uploads") { request, _ in
                await answering(request) { () throws(Problem) in try await list(request) }
            },
            Route(.get, "/v1/uploads/{id}") { request, parameters in
                await answering(request) { () throws(Problem) in try await show(request, parameters["id"]) }
            },
            Route(.delete, "/v1/uploads/{id}") { request, parameters in
                await answering(request) { () throws(Problem) in try await remove(request, parameters["id"]) }
            },
        ]
    }

    private struct Page: Encodable {
        var uploads: [UploadView]
        var nextCursor: String?
    }

    private func list(_ request: Request) async throws(Problem) -> Response {
        try await access.require(.read, request)
        let parameters = try QueryParameters(request, allowed: ["state", "subject", "limit", "cursor"])
        var query = UploadQuery()
        var errors: [Problem.FieldError] = []
        if let text = parameters["state"] {
            query.state = Upload.State(rawValue: text)
            if query.state == nil {
                let allowed = Upload.State.allCases.map(\.rawValue).joined(separator: ", ")
                errors.append(.init(field: "state", message: "must be one of \(allowed)"))
            }
        }
        query.subject = parameters["subject"]
        if let text = parameters["limit"] {
            if let limit = Int(text), (1...1000).contains(limit) {
                query.limit = limit
            } else {
                errors.append(.init(field: "limit", message: "must be an integer from 1 to 1000"))
            }
        }
        if let text = parameters["cursor"] {
            query.before = UploadID(text)
            if query.before == nil {
                errors.append(.init(field: "cursor", message: "must be the nextCursor of an earlier answer"))
            }
        }
        if !errors.isEmpty { throw Problem.invalidFields(errors) }
        let limit = query.limit
        // One more than asked for tells whether there is a next page.
        query.limit += 1
        let found = try await access.core { () throws(UploadError) in try await service.list(query) }
        let page = found.prefix(limit)
        return JSONAnswer.response(
            200,
            Page(
                uploads: page.map { UploadView($0) },
                nextCursor: found.count > limit ? page.last?.id.text : nil
            )
        )
    }

    private func show(_ request: Request, _ text: String) async throws(Problem) -> Response {
        try await access.require(.read, request)
        let id = try uploadID(text)
        let upload = try await access.core { () throws(UploadError) in try await service.inspect(id) }
        var response = JSONAnswer.response(200, UploadView(upload))
        response.trace.uploadID = id.text
        return response
    }

    private func remove(_ request: Request, _ text: String) async throws(Problem) -> Response {
        try await access.require(.upload, request)
        let id = try uploadID(text)
        try await access.core { () throws(UploadError) in try await service.terminate(id) }
        var response = Response(204)
        response.trace.uploadID = id.text
        return response
    }

    /// The upload that a path segment names: by its id, or by the last segment of its upload URL.
    private func uploadID(_ text: String) throws(Problem) -> UploadID {
        guard let id = UploadID(text) ?? locator.id(in: text) else {
            throw Problem(404, "not_found", "there is no upload with this id")
        }
        return id
    }
}
