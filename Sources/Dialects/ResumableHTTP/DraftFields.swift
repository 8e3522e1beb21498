internal import HTTPWire

/// Request fields of the draft, and those of RFC 9110 that describe content.
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
                "Upload-Offset must be there, and be the number of bytes that HEAD answers: at most 15 digits and no sign."
            )
        }
        return offset
    }

    /// `Upload-Length`, the size of the whole in bytes; a value in another form is to be ignored.
    static func length(_ fields: HTTPFields) -> Int64? { integer("Upload-Length", fields) }

    private static func integer(_ name: FieldName, _ fields: HTTPFields) -> Int64? {
        guard let text = fields[name], case .integer(let value)? = StructuredField.item(text), value >= 0 else {
            return nil
        }
        return value
    }

    /// Refuses content in a coding: the media would be served without its name, and is not what was meant without it.
    static func requirePlainContent(_ fields: HTTPFields) throws(UploadProblem) {
        guard fields.list("Content-Encoding").contains(where: { $0.lowercased() != "identity" }) else { return }
        var problem = UploadProblem(415, "unsupported_media_type", "Send the content without Content-Encoding.")
        // RFC 9110 §12.5.3
        problem.fields["Accept-Encoding"] = "identity"
        throw problem
    }
}
