internal import HTTPWire

/// `Upload-Draft-Interop-Version`: the draft of "Resumable Uploads for HTTP" that a request uses
/// (draft-ietf-httpbis-resumable-upload; the number is in §4.2 or near it).
///
/// | number | draft | number | draft |
/// |---|---|---|---|
/// | 3 | -01 | 6 | -04, -05 |
/// | 4 | -02 | 7 | -06 to -08 |
/// | 5 | -03 | 8 | -09 to -11 |
///
/// Without the field, as in the future RFC, the rules of the newest draft apply.
struct InteropVersion: Equatable, Sendable {
    static let known = 3...8

    /// `nil` without the field and for an unsupported version.
    let number: Int?

    init(_ fields: HTTPFields) {
        guard let text = fields["Upload-Draft-Interop-Version"],
            case .integer(let number)? = StructuredField.item(text), Self.known.contains(Int(clamping: number))
        else {
            self.number = nil
            return
        }
        self.number = Int(number)
    }

    private var rules: Int { number ?? Self.known.upperBound }

    /// Interim responses (104) are only sent to clients that announced support; others could treat one as the final
    /// response.
    var hasInterim: Bool { number != nil }
    /// More than one 104 response, with the offset (since -03).
    var hasProgress: Bool { number.map { $0 >= 5 } ?? false }
    /// PATCH needs `application/partial-upload` (since -04).
    var needsMediaType: Bool { rules >= 6 }
    /// `Upload-Limit` (since -04).
    var hasLimits: Bool { rules >= 6 }
    /// The key in `Upload-Limit` for the remaining seconds: `expires` became `max-age` in -06.
    var ageKey: String { rules >= 7 ? "max-age" : "expires" }
    /// PATCH must say whether it is the last request; before -06 a missing field meant that it is.
    var needsCompleteness: Bool { rules >= 7 }
    /// HEAD and DELETE with fields of an append are refused (until -05).
    var refusesStrayFields: Bool { rules <= 6 }
    /// Content beyond the length ends the upload (since -06).
    var overlengthEnds: Bool { rules >= 7 }
    /// The response that completes an upload comes from the target (since -06); before, it described the upload
    /// resource.
    var targetResponses: Bool { rules >= 7 }
    /// `completed-upload` was removed in -09: an append to a complete upload has a wrong length or finds nothing.
    var hasCompletedProblem: Bool { rules <= 7 }
    /// The status of an append that is not the last: 201 until -05.
    var appendStatus: Status { rules <= 6 ? 201 : 204 }
    /// An ended upload does not exist (404, until -05); later drafts allow 410.
    var endedIsNotFound: Bool { rules <= 6 }
    /// A failed append also reports the offset (until -05).
    var failuresTellOffset: Bool { rules <= 6 }

    /// `Upload-Complete`, or its opposite `Upload-Incomplete` in -01.
    private var completenessField: FieldName { rules == 3 ? "Upload-Incomplete" : "Upload-Complete" }

    /// Whether the content of the request completes the upload; `nil` if this is missing or in a form that must be
    /// ignored.
    func isLast(_ fields: HTTPFields) -> Bool? {
        guard let text = fields[completenessField], case .boolean(let value)? = StructuredField.item(text) else {
            return nil
        }
        return rules == 3 ? !value : value
    }

    func setComplete(_ isComplete: Bool, in fields: inout HTTPFields) {
        fields[completenessField] = StructuredField.text(rules == 3 ? !isComplete : isComplete)
    }

    /// Whether a request has fields that only belong to an append.
    func hasStrayFields(_ fields: HTTPFields, of method: HTTPMethod) -> Bool {
        guard refusesStrayFields else { return false }
        // In -04 and -05, which define the field.
        if rules == 6, method == .head, fields.contains("Upload-Length") { return true }
        return fields.contains("Upload-Offset") || fields.contains(completenessField)
    }
}
