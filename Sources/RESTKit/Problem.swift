internal import Bytes
package import Foundation
package import HTTPWire
package import UploadModel

/// An error response of the REST API: a problem document (RFC 9457) with a stable `code`.
package struct Problem: Error {
    /// One wrong field of a request.
    package struct FieldError: Encodable, Sendable, Equatable {
        /// JSON member or query parameter.
        package var field: String
        /// What is wrong, and what is allowed.
        package var message: String
        /// Name of the file in a form.
        package var filename: String?
        /// Same code as in the problem, if several things went wrong.
        package var code: String?

        package init(field: String, message: String, filename: String? = nil, code: String? = nil) {
            self.field = field
            self.message = message
            self.filename = filename
            self.code = code
        }
    }

    package var status: Status
    /// Stable, for programs.
    package var code: String
    /// For people: what to change.
    package var detail: String
    package var errors: [FieldError] = []
    /// The remaining quota, if that is the reason.
    package var quota: QuotaRefusal?
    /// What was stored despite the error.
    package var media: [FormMediaView]?
    package var fields = HTTPFields()
    /// Repeats the detail in the members that Companion's clients read.
    package var speaksCompanion = false
    /// Set if more request bytes may arrive, or the state of the connection is uncertain.
    package var closesConnection = false

    package init(_ status: Status, _ code: String, _ detail: String, errors: [FieldError] = []) {
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = errors
    }

    /// Invalid fields: the first ones by name, and the number of the others.
    ///
    /// Values from the client are repeated only as far as needed to recognise them, so that a response is never larger
    /// than its request.
    package static func invalidFields(_ errors: [FieldError]) -> Problem {
        let reported = errors.prefix(maximumErrors)
            .map { error in
                var error = error
                error.field = cut(error.field, to: 64)
                error.message = cut(error.message, to: 1000)
                return error
            }
        var details = reported.map { "\($0.field): \($0.message)" }
        if errors.count > reported.count { details.append("and \(errors.count - reported.count) more") }
        return Problem(422, "invalid_field", details.joined(separator: "; "), errors: reported)
    }

    /// Maximum number of invalid fields in one response.
    package static let maximumErrors = 10

    /// The beginning of a text, with a mark if it was truncated.
    private static func cut(_ text: String, to count: Int) -> String {
        text.utf8.count <= count ? text : text.first(scalars: count) + "…"
    }

    private struct Document: Encodable {
        var type = "about:blank"
        var title: String
        var status: Int
        var code: String
        var detail: String
        var errors: [FieldError]?
        var quota: QuotaRefusal?
        var media: [FormMediaView]?
        var error: String?
        var message: String?
        var requestId: String
    }

    package func response(requestID: String) -> Response {
        let document = Document(
            title: status.phrase,
            status: status.code,
            code: code,
            detail: detail,
            errors: errors.isEmpty ? nil : errors,
            quota: quota,
            media: media,
            error: speaksCompanion ? detail : nil,
            message: speaksCompanion ? detail : nil,
            requestId: requestID
        )
        var response = Response(status, ["Content-Type": "application/problem+json", "Cache-Control": "no-store"])
        response.fields.append(contentsOf: fields)
        response.content = .bytes(JSONResponse.encode(document))
        response.closesConnection = closesConnection
        response.trace.errorCode = code
        return response
    }
}

/// JSON of responses.
package enum JSONResponse {
    package static func encode(_ value: some Encodable) -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        // Strings, numbers and dictionaries of them always encode.
        guard let data = try? encoder.encode(value) else { return Array("{}\n".utf8) }
        return [UInt8](data) + [10]
    }

    package static func response(_ status: Status, _ value: some Encodable, _ fields: HTTPFields = HTTPFields())
        -> Response
    {
        var response = Response(status, Self.fields)
        response.fields.append(contentsOf: fields)
        response.content = .bytes(encode(value))
        return response
    }

    /// Header fields of every JSON response.
    package static let fields: HTTPFields = ["Content-Type": "application/json", "Cache-Control": "no-store"]

    /// RFC 3339, UTC, milliseconds.
    package static func timestamp(_ date: Date) -> String {
        date.formatted(
            .iso8601.year().month().day().time(includingFractionalSeconds: true).timeZone(separator: .omitted)
        )
    }
}
