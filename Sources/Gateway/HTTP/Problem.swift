internal import Foundation
internal import HTTPWire
internal import UploadCore

/// An error answer of the REST API: a problem document (RFC 9457) with a stable `code`.
struct Problem: Error {
    /// One wrong field of a request.
    struct FieldError: Encodable, Sendable, Equatable {
        /// JSON member or query parameter.
        var field: String
        /// What is wrong, and what is allowed.
        var message: String
        /// Of a file in a form.
        var filename: String?
        /// As that of the problem, where several things went wrong.
        var code: String?
    }

    var status: Status
    /// Stable: for programs.
    var code: String
    /// For people: what to change.
    var detail: String
    var errors: [FieldError] = []
    /// What a quota has left, where it is the reason.
    var quota: QuotaRefusal?
    /// What was stored all the same.
    var media: [FormMediaView]?
    var fields = HTTPFields()
    /// The detail stands there by the names that Companion's clients look for, too.
    var speaksCompanion = false
    /// More bytes of the request may come, or the connection is in doubt.
    var closesConnection = false

    init(_ status: Status, _ code: String, _ detail: String, errors: [FieldError] = []) {
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = errors
    }

    /// Fields that are wrong: the first of them by name, and how many more there are.
    ///
    /// What a client made up is repeated as far as it takes to recognise it, so that no answer is larger than its request.
    static func invalidFields(_ errors: [FieldError]) -> Problem {
        let told = errors.prefix(maximumErrors)
            .map { error in
                var error = error
                error.field = cut(error.field, to: 64)
                error.message = cut(error.message, to: 1000)
                return error
            }
        var details = told.map { "\($0.field): \($0.message)" }
        if errors.count > told.count { details.append("and \(errors.count - told.count) more") }
        return Problem(422, "invalid_field", details.joined(separator: "; "), errors: told)
    }

    /// Wrong fields that one answer names.
    static let maximumErrors = 10

    /// The beginning of a text, with a mark if that is not all of it.
    private static func cut(_ text: String, to count: Int) -> String {
        text.utf8.count <= count ? text : String(text.unicodeScalars.prefix(count)) + "…"
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

    func response(requestID: String) -> Response {
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
        response.content = .bytes(JSONAnswer.encode(document))
        response.closesConnection = closesConnection
        response.trace.errorCode = code
        return response
    }
}

/// JSON of answers.
enum JSONAnswer {
    static func encode(_ value: some Encodable) -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        // Strings, numbers and dictionaries of them, which always can be encoded.
        guard let data = try? encoder.encode(value) else { return Array("{}\n".utf8) }
        return [UInt8](data) + [10]
    }

    static func response(_ status: Status, _ value: some Encodable, _ fields: HTTPFields = HTTPFields()) -> Response {
        var response = Response(status, Self.fields)
        response.fields.append(contentsOf: fields)
        response.content = .bytes(encode(value))
        return response
    }

    /// What every JSON answer says of itself.
    static let fields: HTTPFields = ["Content-Type": "application/json", "Cache-Control": "no-store"]

    /// RFC 3339, UTC, milliseconds.
    static func timestamp(_ date: Date) -> String {
        date.formatted(
            .iso8601.year().month().day().time(includingFractionalSeconds: true).timeZone(separator: .omitted)
        )
    }
}
