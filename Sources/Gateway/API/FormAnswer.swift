internal import Forms
internal import HTTPWire
internal import UploadCore

/// Media of a form, with the name of the control that brought them.
struct FormMediaView: Encodable {
    var field: String
    var media: MediaView

    private enum CodingKeys: String, CodingKey {
        case field
    }

    func encode(to encoder: any Encoder) throws {
        try media.encode(to: encoder)
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(field, forKey: .field)
    }
}

/// What the REST API says of a form.
enum FormAnswer {
    private struct View: Encodable {
        var media: [FormMediaView]
        var fields: [String: String]
    }

    /// 201 if every file is stored; else the problem of the first that is not, with all failures and what is stored.
    static func response(_ outcome: FormOutcome, _ request: Request, _ base: String) -> Response {
        let media = outcome.media.map { field, media in
            FormMediaView(field: field, media: MediaView(media, url: "\(base)/media/\(media.id)"))
        }
        guard let first = outcome.failures.first else {
            let fields = Dictionary(outcome.fields.map { ($0.name, $0.value) }) { $1 }
            return JSONAnswer.response(201, View(media: media, fields: fields))
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
