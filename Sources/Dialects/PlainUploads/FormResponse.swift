internal import Forms
internal import HTTPWire
internal import RESTKit
internal import UploadCore
internal import UploadModel

/// REST API responses to a form.
enum FormResponse {
    private struct View: Encodable {
        var media: [FormMediaView]
        var fields: [String: String]
    }

    /// 201 if every file is stored; otherwise the problem of the first failed file, with all failures and what is
    /// stored.
    static func response(_ outcome: FormOutcome, _ request: Request, _ base: String) -> Response {
        let media = outcome.media.map { field, media in
            FormMediaView(field: field, media: MediaView(media, url: "\(base)/media/\(media.id)"))
        }
        guard let first = outcome.failures.first else {
            let fields = Dictionary(outcome.fields.map { ($0.name, $0.value) }) { $1 }
            return JSONResponse.response(201, View(media: media, fields: fields))
        }
        var problem = RESTErrors.problem(first.error)
        problem.media = media
        problem.errors = outcome.failures.compactMap { failure in
            failure.field.map {
                Problem.FieldError(
                    field: $0,
                    message: failure.error.message,
                    filename: failure.filename,
                    code: failure.error.code.name
                )
            }
        }
        return problem.response(requestID: request.id)
    }
}
