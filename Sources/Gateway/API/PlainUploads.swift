internal import Forms
internal import Foundation
internal import HTTPServer
internal import HTTPWire
internal import ResumableHTTP
internal import Tus
internal import UploadCore

/// Uploads by one request, at `/files` beside tus and at `/v1/media`.
///
/// Forms, and single files, which are resumable if the client speaks the draft.
struct PlainUploads: Sendable {
    private let handler: ResumableHTTPHandler
    private let forms: FormHandler
    let cors: CORSPolicy

    init(
        service: UploadService,
        locator: UploadLocator,
        authenticator: Authenticator,
        urls: UploadURLs,
        publicURL: PublicURL,
        interim: InterimResponses,
        tus: TusSettings,
        cors: CORSPolicy
    ) {
        self.cors = cors
        forms = FormHandler(
            service: service,
            grants: { authorization throws(UploadError) in
                try await authenticator.grantToUpload(authorization: authorization)
            },
            answer: { outcome, request in FormAnswer.response(outcome, request, publicURL.base(for: request)) }
        )
        handler = ResumableHTTPHandler(
            service: service,
            locator: locator,
            grants: { head throws(UploadError) in
                try await authenticator.grantToUpload(authorization: head.fields["Authorization"])
            },
            admits: { id throws(UploadError) in try await urls.check(id) },
            deletesComplete: tus.deletesComplete,
            metadata: { head throws(UploadError) in
                try Self.metadata(of: head, maximumBytes: tus.maximumMetadataBytes)
            },
            uploadsURL: { publicURL.base(for: $0) + "/files" },
            canInform: { interim.reachClient(of: $0) },
            target: { upload, request in Self.answer(upload, publicURL.base(for: request)) }
        )
    }

    /// At `/v1/media`; `/files` is the business of `GatewayHandler`.
    var routes: [Route] {
        [
            Route(.post, "/v1/media") { request, _ in await respond(to: request, upload: nil) },
            Route(.patch, "/v1/media") { request, _ in await respond(to: request, upload: nil) },
            // A file may have this name; the route of pulls would hide it.
            Route(.put, "/v1/media/pull") { request, _ in await respond(to: request, upload: nil) },
            Route(.put, "/v1/media/{id}") { request, _ in await respond(to: request, upload: nil) },
        ]
    }

    /// Answers a request for the collection (`token` is `nil`) or for an upload resource.
    func respond(to request: Request, upload token: String?) async -> Response {
        if token == nil, FormHandler.isMeant(by: request.head) { return await forms.respond(to: request) }
        return await handler.respond(to: request, upload: token)
    }

    /// What OPTIONS says of plain uploads, beside what it says of tus.
    func describeDiscovery(to head: RequestHead, in response: inout Response) {
        handler.describeDiscovery(to: head, in: &response)
    }

    /// Whether uploads are created at this template of a route.
    static func isTarget(_ template: String) -> Bool { ["/v1/media", "/v1/media/{id}"].contains(template) }

    /// What creates an upload at `/files`, beside POST.
    static let methodsOfFiles: [HTTPMethod] = [.put, .patch]

    /// What `Upload-Metadata`, `Content-Disposition`, `Content-Type` and the path of a PUT say, in this order.
    private static func metadata(of head: RequestHead, maximumBytes: Int) throws(UploadError) -> UploadMetadata {
        var metadata = try TusMetadata.parse(head.fields, maximumBytes: maximumBytes)
        if metadata.raw != nil { return metadata }
        var values = metadata.values
        values["filename"] = head.fields["Content-Disposition"].flatMap(ContentDisposition.fileName)
        if values["filename"] == nil, head.method == .put, let last = head.target.segments.last, !last.isEmpty {
            values["filename"] = last
        }
        if let type = head.fields["Content-Type"].flatMap({ MediaType($0) }), !namesNothing.contains(type.essence) {
            values["filetype"] = type.description
        }
        metadata = UploadMetadata(describing: values)
        return metadata
    }

    /// Of a part of the file, and what curl says of any data.
    private static let namesNothing: Set<String> = [
        "application/partial-upload", "application/offset+octet-stream", "application/x-www-form-urlencoded",
    ]

    private static func answer(_ upload: Upload, _ base: String) -> Response {
        var response: Response
        if upload.state == .completed, upload.concatenation?.role != .partial {
            let url = "\(base)/media/\(upload.id)"
            response = JSONAnswer.response(201, MediaView(Media(of: upload), url: url), ["Location": url])
        } else {
            response = JSONAnswer.response(201, UploadView(upload))
        }
        response.trace.uploadID = upload.id.text
        return response
    }
}
