internal import Forms
internal import Foundation
package import GatewayKit
package import HTTPWire
package import RESTKit
internal import ResumableHTTP
internal import SettingsKit
internal import Tus
internal import UploadCore
internal import UploadModel

/// Uploads in one request, at `/files` beside tus and at `/v1/media`.
///
/// Forms and single files; single files are resumable if the client supports the draft.
package struct PlainUploads: GatewayModule {
    package let name = "plain uploads"
    private let handler: ResumableHTTPHandler
    private let forms: FormHandler
    private let cors: CORSPolicy
    private let isContentServed: Bool

    package init(_ context: GatewayContext) {
        let (service, locator, authenticator) = (context.services.uploads, context.locator, context.authenticator)
        let (urls, publicURL, tus) = (context.urls, context.publicURL, context.tusSettings)
        let interim = InterimResponses(policy: context.settings.uploads.interimResponses, publicURL: publicURL)
        cors = context.cors
        isContentServed = context.settings.uploads.downloadsByUploadURL
        forms = FormHandler(
            service: service,
            limits: FormLimits(maximumFiles: context.settings.limits.formFiles),
            grants: { authorization throws(UploadError) in
                try await authenticator.grantToUpload(authorization: authorization)
            },
            response: { outcome, request in FormResponse.response(outcome, request, publicURL.base(for: request)) }
        )
        handler = ResumableHTTPHandler(
            service: service,
            media: context.services.media,
            locator: locator,
            grants: { head throws(UploadError) in
                try await authenticator.grantToUpload(authorization: head.fields["Authorization"])
            },
            admits: { id throws(UploadError) in try await urls.check(id) },
            deletesComplete: tus.deletesComplete,
            terminates: tus.terminates,
            metadata: { head throws(UploadError) in
                try Self.metadata(of: head, maximumBytes: tus.maximumMetadataBytes)
            },
            uploadsURL: { publicURL.base(for: $0) + "/files" },
            canInform: { interim.reachClient(of: $0) },
            target: { upload, request in Self.response(upload, publicURL.base(for: request)) }
        )
    }

    /// Routes at `/v1/media`.
    package var routes: [Route] {
        [
            Route(.post, "/v1/media") { request, _ in await respond(to: request, upload: nil) },
            Route(.patch, "/v1/media") { request, _ in await respond(to: request, upload: nil) },
            // A file may have this name; the route for pulls would hide it.
            Route(.put, "/v1/media/pull") { request, _ in await respond(to: request, upload: nil) },
            Route(.put, "/v1/media/{id}") { request, _ in await respond(to: request, upload: nil) },
        ]
    }

    /// At `/files`, beside tus: PUT and PATCH, and requests whose head indicates the draft or a form.
    package var claims: [Claim] {
        [
            Claim(
                ["/files", "/files/{upload}"],
                dialect: .http,
                when: Claim.Condition(text: "the IETF draft, forms and single files") {
                    [isContentServed] in
                    ResumableHTTPHandler.isMeant(by: $0) && !(isContentServed && UploadSettings.isForContent($0))
                },
                operations: [(.put, "/files"), (.patch, "/files")]
            ) { request in
                let segments = request.head.target.segments
                let token = segments.count == 2 ? segments[1] : ""
                var response = await respond(to: request, upload: token.isEmpty ? nil : token)
                cors.decorate(&response, for: request.head)
                return response
            }
        ]
    }

    /// Handles a request for the collection (`token` is `nil`) or for an upload resource.
    private func respond(to request: Request, upload token: String?) async -> Response {
        let isForm = token == nil && FormHandler.isMeant(by: request.head)
        var response =
            isForm ? await forms.respond(to: request) : await handler.respond(to: request, upload: token)
        response.trace.dialect = isForm ? .form : .http
        return response
    }

    /// Adds plain uploads to the response to OPTIONS, beside tus.
    package func describe(_ template: String, to head: RequestHead, in response: inout Response) {
        guard Self.targets.contains(template) else { return }
        handler.describeDiscovery(to: head, in: &response)
    }

    /// Where uploads are created.
    private static let targets: Set<String> = ["*", "/files", "/files/{upload}", "/v1/media", "/v1/media/{id}"]

    /// Metadata from `Upload-Metadata`, `Content-Disposition`, `Content-Type` and the path of a PUT, in this order.
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

    /// The type of a partial file, and curl's default type for any data.
    private static let namesNothing: Set<String> = [
        "application/partial-upload", "application/offset+octet-stream", "application/x-www-form-urlencoded",
    ]

    private static func response(_ upload: Upload, _ base: String) -> Response {
        var response: Response
        if upload.isMedia {
            let url = "\(base)/media/\(upload.id)"
            response = JSONResponse.response(201, MediaView(Media(of: upload), url: url), ["Location": url])
        } else {
            response = JSONResponse.response(201, UploadView(upload))
        }
        response.trace.note(upload: upload.id.text, isMedia: upload.isMedia)
        return response
    }
}
