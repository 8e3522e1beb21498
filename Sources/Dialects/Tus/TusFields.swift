internal import Bytes
internal import Digests
internal import HTTPWire
internal import RESTKit
internal import UploadCore
internal import UploadModel

/// Request fields of tus 1.0.0.
enum TusFields {
    private static let offsetType = "application/offset+octet-stream"

    /// Whether the content is bytes of the upload.
    ///
    /// Parameters of the media type are ignored.
    static func hasOffsetType(_ fields: HTTPFields) -> Bool {
        guard let type = fields["Content-Type"] else { return false }
        // As nearly all clients write it.
        return type.isExactly(offsetType) || MediaType(type)?.essence == offsetType
    }

    /// The length of a new upload: exactly one of `Upload-Length` and `Upload-Defer-Length: 1` (tus 1.0.0, creation).
    ///
    /// - Returns: In bytes; `nil` if a later request declares it.
    static func newLength(_ fields: HTTPFields) throws(TusFailure) -> Int64? {
        let length = try declaredLength(fields)
        guard let deferral = fields["Upload-Defer-Length"] else {
            if let length { return length }
            throw .refused(
                .invalidLength("Send the size of the file in bytes as Upload-Length, or Upload-Defer-Length: 1.")
            )
        }
        guard deferral == "1" else { throw .refused(.invalidLength("Upload-Defer-Length must be 1, or be left out.")) }
        guard length == nil else {
            throw .refused(.invalidLength("Send either Upload-Length or Upload-Defer-Length: 1, not both."))
        }
        return nil
    }

    /// `Upload-Length`.
    ///
    /// With PATCH it declares a deferred length (tus 1.0.0, creation-defer-length).
    static func declaredLength(_ fields: HTTPFields) throws(TusFailure) -> Int64? {
        guard let text = fields["Upload-Length"] else { return nil }
        guard let length = number(text) else {
            throw .refused(.invalidLength("Upload-Length must be a number of bytes: digits only, below 2^63."))
        }
        return length
    }

    static func offset(_ fields: HTTPFields) throws(TusFailure) -> Int64 {
        guard let text = fields["Upload-Offset"] else {
            throw .refused(.invalidOffset("Upload-Offset is missing: send the offset from the response to HEAD."))
        }
        guard let offset = number(text) else {
            throw .refused(.invalidOffset("Upload-Offset must be a number of bytes: digits only, below 2^63."))
        }
        return offset
    }

    /// A non-negative integer in decimal digits; `nil` for a sign, a space, a list or an overflow.
    static func number(_ text: String) -> Int64? {
        guard text.utf8.allSatisfy({ $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") }) else {
            return nil
        }
        return Int64(text)
    }
}

/// tus 1.0.0, checksum: the digest of the body of one request.
enum TusChecksum {
    /// `sha1` is mandatory; the order is the order of recommendation.
    static let algorithms: [DigestAlgorithm] = [.sha256, .sha1, .crc32c, .md5]
    static let offered = algorithms.map(\.rawValue)

    /// The digest of the request's body, from `Upload-Checksum`, or from `Content-Digest` as without tus (RFC 9530); each
    /// also from a trailer field that the request announces (tus 1.0.0, checksum-trailer).
    ///
    /// - Returns: `nil` without any. A trailer that was not announced is ignored: the bytes are stored before it
    ///   arrives.
    static func expectation(of request: Request) throws(TusFailure) -> DigestExpectation? {
        let checksum = try checksum(of: request)
        let digest = try announced { () throws(AnnouncedDigests.Malformed) in
            try AnnouncedDigests.content(of: request)
        }
        guard checksum == nil || digest == nil else {
            throw .upload(UploadError(.invalidRequest, "Send either Upload-Checksum or Content-Digest, not both."))
        }
        return checksum ?? digest
    }

    /// The digests of the whole upload that its creation announces (`Repr-Digest`).
    static func whole(_ fields: HTTPFields) throws(TusFailure) -> DigestValues {
        try announced { () throws(AnnouncedDigests.Malformed) in try AnnouncedDigests.values("Repr-Digest", fields) }
    }

    private static func announced<Value>(
        _ parse: () throws(AnnouncedDigests.Malformed) -> Value
    ) throws(TusFailure) -> Value {
        do throws(AnnouncedDigests.Malformed) {
            return try parse()
        } catch {
            throw .upload(UploadError(.invalidRequest, error.detail))
        }
    }

    private static func checksum(of request: Request) throws(TusFailure) -> DigestExpectation? {
        let fields = request.head.fields
        if let digest = try expected(by: fields) { return .known(digest) }
        guard fields.list("Trailer").contains(where: { $0.lowercasedASCII() == "upload-checksum" }) else { return nil }
        let body = request.body
        return .atEnd { () throws(UploadError) in
            do throws(TusFailure) {
                if let digest = try expected(by: body.trailers) { return digest }
            } catch {
                switch error {
                case .upload(let error): throw error
                case .refused(.invalidChecksum(let text)): throw UploadError(.invalidRequest, text)
                case .refused: break
                }
            }
            throw UploadError(.invalidRequest, "The trailer field Upload-Checksum was announced but not sent.")
        }
    }

    /// The value of `Upload-Checksum`; `nil` without it.
    private static func expected(by fields: HTTPFields) throws(TusFailure) -> ExpectedDigest? {
        guard let text = fields["Upload-Checksum"] else { return nil }
        let parts = text.split(separator: " ", omittingEmptySubsequences: false)
        guard parts.count == 2, !parts[0].isEmpty, !parts[1].isEmpty else {
            throw .refused(.invalidChecksum("Upload-Checksum must be an algorithm, one space and a digest in base64."))
        }
        guard let algorithm = algorithms.first(where: { $0.rawValue == parts[0] }) else {
            throw .upload(
                UploadError(
                    .unsupportedChecksum(offered: offered),
                    "Upload-Checksum names an unsupported algorithm; see Tus-Checksum-Algorithm."
                )
            )
        }
        guard let value = Base64.decode(parts[1]), value.count == algorithm.byteCount else {
            throw .refused(
                .invalidChecksum(
                    "The digest in Upload-Checksum must be \(algorithm.byteCount) bytes in padded base64."
                )
            )
        }
        return ExpectedDigest(algorithm: algorithm, value: value)
    }
}
