internal import HTTPWire

/// Request fields of the draft, and those of RFC 9110 that describe content.
enum DraftFields {
    static func hasPartialType(_ fields: HTTPFields) -> Bool { hasType(fields, "application/partial-upload") }

    static func hasType(_ fields: HTTPFields, _ essence: String) -> Bool {
        fields["Content-Type"].flatMap { MediaType($0) }?.essence == essence
    }

    /// `Upload-Offset`: a non-negative integer (RFC 9651 §3.3.1).
    static func offset(_ fields: HTTPFields) throws(UploadProblem) -> Int64 {
        guard let offset = try integer("Upload-Offset", fields) else {
            throw UploadProblem(
                400,
                "invalid_request",
                "Upload-Offset is missing: send the number of bytes that HEAD answers."
            )
        }
        return offset
    }

    /// `Upload-Length`, the size of the whole in bytes.
    static func length(_ fields: HTTPFields) throws(UploadProblem) -> Int64? { try integer("Upload-Length", fields) }

    private static func integer(_ name: FieldName, _ fields: HTTPFields) throws(UploadProblem) -> Int64? {
        guard let text = fields[name] else { return nil }
        guard case .integer(let value)? = StructuredField.item(text), value >= 0 else {
            throw UploadProblem(
                400,
                "invalid_request",
                "\(name) must be a number of bytes: at most 15 digits and no sign."
            )
        }
        return value
    }
}
