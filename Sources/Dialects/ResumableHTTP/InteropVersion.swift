internal import HTTPWire

/// `Upload-Draft-Interop-Version`: which draft of "Resumable Uploads for HTTP" a request speaks
/// (draft-ietf-httpbis-resumable-upload; the number stands in its §4.2 or thereabouts).
///
/// | number | draft | number | draft |
/// |---|---|---|---|
/// | 3 | -01 | 6 | -04, -05 |
/// | 4 | -02 | 7 | -06 to -08 |
/// | 5 | -03 | 8 | -09 to -11 |
///
/// Without the field, as in the RFC to come, the rules are those of the newest draft.
struct InteropVersion: Equatable, Sendable {
    static let known = 3...8

    /// `nil` without the field, and for a version that is not spoken.
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

    /// Interim answers (104) are for those only who said that they know them; others take one for the final answer.
    var hasInterim: Bool { number != nil }
    /// More than one 104, with the offset (since -03).
    var hasProgress: Bool { number.map { $0 >= 5 } ?? false }
    /// PATCH needs `application/partial-upload` (since -04).
    var needsMediaType: Bool { rules >= 6 }
    /// `Upload-Limit` (since -04).
    var hasLimits: Bool { rules >= 6 }
    /// The key of `Upload-Limit` for the seconds that are left: `expires` became `max-age` with -06.
    var ageKey: String { rules >= 7 ? "max-age" : "expires" }
    /// PATCH must say whether it is the last; before -06 silence meant that.
    var needsCompleteness: Bool { rules >= 7 }
    /// HEAD and DELETE with fields of an append are refused (until -05).
    var refusesStrayFields: Bool { rules <= 6 }
    /// Content beyond the length ends the upload (since -06).
    var overlengthEnds: Bool { rules >= 7 }
    /// The answer that completes an upload is that of the target (since -06); before, it named the upload resource.
    var targetAnswers: Bool { rules >= 7 }
    /// `completed-upload` is gone with -09: an append to a complete upload has a wrong length, or finds nothing.
    var hasCompletedProblem: Bool { rules <= 7 }
    /// An append that is not the last was answered 201 until -05.
    var appendStatus: Status { rules <= 6 ? 201 : 204 }
    /// An upload that has ended is not there (404, until -05); later it may be told that it was (410).
    var endedIsNotFound: Bool { rules <= 6 }
    /// Also an append that fails tells how far the upload is (until -05).
    var failuresTellOffset: Bool { rules <= 6 }

    /// `Upload-Complete`, or its opposite `Upload-Incomplete` in -01.
    private var completenessField: FieldName { rules == 3 ? "Upload-Incomplete" : "Upload-Complete" }

    /// Whether the content of the request ends the upload; `nil` if it does not say, or in a form that is to be ignored.
    func isLast(_ fields: HTTPFields) -> Bool? {
        guard let text = fields[completenessField], case .boolean(let value)? = StructuredField.item(text) else {
            return nil
        }
        return rules == 3 ? !value : value
    }

    func setComplete(_ isComplete: Bool, in fields: inout HTTPFields) {
        fields[completenessField] = StructuredField.text(rules == 3 ? !isComplete : isComplete)
    }

    /// Whether a request carries what belongs to an append only.
    func hasStrayFields(_ fields: HTTPFields, of method: HTTPMethod) -> Bool {
        guard refusesStrayFields else { return false }
        // In -04 and -05, which have the field.
        if rules == 6, method == .head, fields.contains("Upload-Length") { return true }
        return fields.contains("Upload-Offset") || fields.contains(completenessField)
    }
}
