internal import Foundation
internal import GatewayKit
internal import HTTPWire
internal import RESTKit
internal import UploadCore
internal import UploadModel

/// `/v1/uploads`: the uploads and their history.
struct UploadsAPI: Sendable {
    let service: UploadService
    let names: UploadNames
    let access: Access
    let bodyLimit: Int
    let pulls: PullService
    let audit: AuditLog

    var routes: [Route] {
        [
            Route(.get, "/v1/uploads") { request, _ in
                await responding(request) { () throws(Problem) in try await list(request) }
            },
            Route(.get, "/v1/uploads/{id}") { request, parameters in
                await responding(request) { () throws(Problem) in try await show(request, parameters["id"]) }
            },
            Route(.patch, "/v1/uploads/{id}") { request, parameters in
                await responding(request) { () throws(Problem) in try await edit(request, parameters["id"]) }
            },
            Route(.delete, "/v1/uploads/{id}") { request, parameters in
                await responding(request) { () throws(Problem) in try await remove(request, parameters["id"]) }
            },
        ]
    }

    private struct Page: Encodable {
        var uploads: [UploadView]
        var nextCursor: String?
    }

    private func list(_ request: Request) async throws(Problem) -> Response {
        let key = try await access.limitedKey(.read, request)
        var query = try Self.query(request)
        query.subject = try access.listedSubject(key, query.subject)
        let page = try await access.core { () throws(UploadError) in try await service.page(query) }
        return JSONResponse.response(
            200,
            Page(uploads: page.uploads.map { UploadView($0) }, nextCursor: page.next?.text)
        )
    }

    private static func query(_ request: Request) throws(Problem) -> UploadQuery {
        let names: Set = [
            "state", "subject", "key", "dialect", "createdAfter", "createdBefore", "limit", "cursor",
        ]
        let parameters = try QueryParameters(request, allowed: names)
        var query = UploadQuery()
        var errors: [Problem.FieldError] = []
        let states = Upload.State.allCases.map { (text: $0.rawValue, value: $0) }
        query.states = Set(parameters.list("state", of: states, &errors) ?? [])
        query.subject = parameters.subject(&errors)
        query.issuer = parameters["key"]
        query.dialect = parameters["dialect"]
        query.createdAfter = parameters.time("createdAfter", &errors)
        query.createdBefore = parameters.time("createdBefore", &errors)
        if let limit = parameters.pageSize(&errors) { query.limit = limit }
        if let text = parameters["cursor"] {
            query.before = UploadID(text)
            if query.before == nil {
                errors.append(.init(field: "cursor", message: "must be the nextCursor of an earlier response"))
            }
        }
        if !errors.isEmpty { throw Problem.invalidFields(errors) }
        return query
    }

    private func show(_ request: Request, _ text: String) async throws(Problem) -> Response {
        let key = try await access.limitedKey(.read, request)
        let id = try await names.id(text, within: key.limits)
        let (upload, job) = try await access.core { () throws(UploadError) in
            let upload = try await service.inspect(id)
            return (upload, upload.dialect == PullView.dialect ? try await pulls.job(of: id) : nil)
        }
        var view = UploadView(upload)
        view.pull = job.map(PullView.init)
        return response(upload, view)
    }

    private func edit(_ request: Request, _ text: String) async throws(Problem) -> Response {
        let key = try await access.appKey(.upload, request)
        let edit = try await MetadataEdit(readingFrom: request, limit: bodyLimit)
        let id = try await names.id(text, within: key.limits)
        let upload = try await access.core { () throws(UploadError) in
            try await service.editMetadata(of: id) { edit.apply(to: $0) }
        }
        return response(upload, UploadView(upload))
    }

    private func response(_ upload: Upload, _ view: UploadView) -> Response {
        var response = JSONResponse.response(200, view)
        response.trace.note(upload: upload.id.text, isMedia: upload.isMedia)
        return response
    }

    private func remove(_ request: Request, _ text: String) async throws(Problem) -> Response {
        let key = try await access.limitedKey(.upload, request)
        let id = try await names.id(text, within: key.limits)
        let refusal: UploadError? = key.allows(.delete) ? nil : .completeNeedsDelete
        try await access.core { () throws(UploadError) in
            try await service.terminate(id, unlessComplete: refusal)
        }
        pulls.cancel(id)
        audit.record(.deleteUpload, id, by: key, request)
        var response = Response(204)
        response.trace.uploadID = id.text
        return response
    }
}
