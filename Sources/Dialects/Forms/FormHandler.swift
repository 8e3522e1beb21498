internal import Bytes
package import HTTPWire
package import UploadCore
package import UploadModel

/// Uploads by form (`multipart/form-data`, RFC 7578), as sent by browsers, `curl -F` and HTTP libraries.
///
/// Each file becomes an upload while it arrives. Text fields are metadata of the files after them. No client knows the
/// URL of such an upload, so an interrupted one is ended; complete files stay.
package struct FormHandler: Sendable {
    let service: UploadService
    let limits: FormLimits
    let grants: @Sendable (String) async throws(UploadError) -> Grant
    let response: @Sendable (FormOutcome, Request) -> Response

    /// - Parameters:
    ///   - service: Executes the uploads.
    ///   - limits: Besides those of each file.
    ///   - grants: Authorises uploads by the value of an Authorization field.
    ///   - response: Makes the response from the outcome.
    package init(
        service: UploadService,
        limits: FormLimits = FormLimits(),
        grants: @escaping @Sendable (String) async throws(UploadError) -> Grant,
        response: @escaping @Sendable (FormOutcome, Request) -> Response
    ) {
        self.service = service
        self.limits = limits
        self.grants = grants
        self.response = response
    }

    /// Whether the request's content is a form.
    ///
    /// Not if it announces further requests: a form cannot be resumed. `Upload-Complete: ?1` is
    /// accepted: it only says that the client could resume.
    package static func isMeant(by head: RequestHead) -> Bool {
        let fields = head.fields
        return head.method == .post && type(of: head)?.essence == "multipart/form-data"
            && fields["Upload-Complete"] != "?0" && fields["Upload-Incomplete"] != "?1"
    }

    /// Handles a request whose content is a form.
    package func respond(to request: Request) async -> Response {
        var outcome: FormOutcome
        if let boundary = Self.type(of: request.head).flatMap({ MultipartBoundary(of: $0) }) {
            var upload = FormUpload(self, FormReader(request.body, boundary: boundary))
            outcome = await upload.run(authorization: request.head.fields["Authorization"])
        } else {
            outcome = FormOutcome()
            let error = UploadError(
                .invalidRequest,
                "Content-Type must have one boundary of 1 to 70 letters, digits and '()+_,-./:=? (RFC 2046 §5.1.1)."
            )
            outcome.failures.append(FormFailure(field: nil, filename: nil, error: error))
        }
        var response = response(outcome, request)
        if let media = outcome.media.first?.media { response.trace.note(upload: media.id.text, isMedia: true) }
        return response
    }

    private static func type(of head: RequestHead) -> MediaType? {
        head.fields["Content-Type"].flatMap { MediaType($0) }
    }
}
