internal import Digests
internal import HTTPWire
internal import UploadCore

/// Request fields of the draft, and those of RFC 9110 and 9530 that describe content.
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

    /// `Content-Digest` (RFC 9530 §2): what the content of this request hashes to, by the strongest algorithm that is known.
    ///
    /// - Returns: `nil` without the field, and if it names unknown or deprecated algorithms only, which prove nothing (§5).
    static func contentDigest(_ fields: HTTPFields) throws(UploadProblem) -> ExpectedDigest? {
        guard let text = fields["Content-Digest"] else { return nil }
        guard let members = StructuredField.dictionary(text) else {
            throw UploadProblem(400, "invalid_request", "Content-Digest must be a list such as sha-256=:base64:.")
        }
        for (name, algorithm) in algorithms {
            guard let member = members[name] else { continue }
            guard case .bytes(let value) = member, value.count == algorithm.byteCount else {
                throw UploadProblem(
                    400,
                    "invalid_request",
                    "\(name) in Content-Digest must be \(algorithm.byteCount) bytes in base64."
                )
            }
            return ExpectedDigest(algorithm: algorithm, value: value)
        }
        return nil
    }

    private static let algorithms: [(String, DigestAlgorithm)] = [("sha-512", .sha512), ("sha-256", .sha256)]
}
