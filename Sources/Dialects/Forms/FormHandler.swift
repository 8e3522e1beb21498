internal import Bytes
package import HTTPWire
package import UploadCore

/// Files that a form brings (`multipart/form-data`, RFC 7578), as browsers, `curl -F` and HTTP libraries send them.
///
/// Each file becomes an upload of its own, while it comes. Text fields are metadata of the files after them. Nobody knows the
/// URL of such an upload, so what breaks off is ended; files that were complete stay.
package struct FormHandler: Sendable {
    let service: UploadService
    let limits: FormLimits
    let grants: @Sendable (String) async throws(UploadError) -> Grant
    let answer: @Sendable (FormOutcome, Request) -> Response

    /// - Parameters:
    ///   - service: Does what is asked for.
    ///   - limits: Of all that is no file.
    ///   - grants: Authorises uploads by the value of an Authorization field.
    ///   - answer: Tells what became of the form.
    package init(
        service: UploadService,
        limits: FormLimits = FormLimits(),
        grants: @escaping @Sendable (String) async throws(UploadError) -> Grant,
        answer: @escaping @Sendable (FormOutcome, Request) -> Response
    ) {
        self.service = service
        self.limits = limits
        self.grants = grants
        self.answer = answer
    }

    /// Whether a request brings a form.
    ///
    /// One that says that more requests will follow does not: a form can not be resumed. That it is complete says a client that
    /// would resume if it were offered.
    package static func isMeant(by head: RequestHead) -> Bool {
        let fields = head.fields
        return head.method == .post && type(of: head)?.essence == "multipart/form-data"
            && fields["Upload-Complete"] != "?0" && fields["Upload-Incomplete"] != "?1"
    }

    /// Answers a request that brings a form.
    package func respond(to request: Request) async -> Response {
        var outcome: FormOutcome
        if let boundary = Self.type(of: request.head).flatMap({ MultipartBoundary(of: $0) }) {
            var reception = FormReception(self, FormReader(request.body, boundary: boundary))
            outcome = await reception.run(authorization: request.head.fields["Authorization"])
        } else {
            outcome = FormOutcome()
            let error = UploadError(
                .invalidRequest,
                "Content-Type must tell one boundary of 1 to 70 letters, digits and '()+_,-./:=? as RFC 2046 §5.1.1 has it."
            )
            outcome.failures.append(FormFailure(field: nil, filename: nil, error: error))
        }
        var response = answer(outcome, request)
        response.trace.uploadID = outcome.media.first?.media.id.text
        return response
    }

    private static func type(of head: RequestHead) -> MediaType? {
        head.fields["Content-Type"].flatMap { MediaType($0) }
    }
}
