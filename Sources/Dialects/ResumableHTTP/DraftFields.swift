internal import Bytes
internal import HTTPWire

/// Request fields of the draft, and fields of RFC 9110 that describe content.
enum DraftFields {
    static func hasPartialType(_ fields: HTTPFields) -> Bool { hasType(fields, "application/partial-upload") }

    static func hasType(_ fields: HTTPFields, _ essence: String) -> Bool {
        fields["Content-Type"].flatMap { MediaType($0) }?.essence == essence
    }

    /// `Upload-Offset`: a non-negative integer (RFC 9651 §3.3.1).
    static func offset(_ fields: HTTPFields) throws(UploadProblem) -> Int64 {
        guard let offset = integer("Upload-Offset", fields) else {
            throw UploadProblem(
                400,
                "invalid_request",
                "Upload-Offset is required: send the offset from the response to HEAD, at most 15 digits, without a sign."
            )
        }
        return offset
    }

    /// `Upload-Length`, the size of the whole upload in bytes; an invalid value must be ignored.
    static func length(_ fields: HTTPFields) -> Int64? { integer("Upload-Length", fields) }

    private static func integer(_ name: FieldName, _ fields: HTTPFields) -> Int64? {
        guard let text = fields[name], case .integer(let value)? = StructuredField.item(text), value >= 0 else {
            return nil
        }
        return value
    }

    /// Refuses content with a coding: the media would be served without the name of the coding and could not be
    /// decoded.
    static func requirePlainContent(_ fields: HTTPFields) throws(UploadProblem) {
        guard fields.list("Content-Encoding").contains(where: { $0.lowercasedASCII() != "identity" }) else { return }
        var problem = UploadProblem(415, "unsupported_media_type", "Send the content without Content-Encoding.")
        // RFC 9110 §12.5.3
        problem.fields["Accept-Encoding"] = "identity"
        throw problem
    }
}
