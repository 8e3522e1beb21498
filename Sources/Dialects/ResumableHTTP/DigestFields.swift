internal import Bytes
package import Digests
package import HTTPWire
internal import UploadModel

/// Digest fields (RFC 9530) with the algorithms that it does not deprecate (§5): sha-256 and sha-512.
package enum DigestFields {
    /// Parses `Content-Digest` (§2) or `Repr-Digest` (§3).
    ///
    /// - Returns: Without unknown and deprecated algorithms, which prove nothing.
    static func values(_ name: FieldName, _ fields: HTTPFields) throws(UploadProblem) -> DigestValues {
        guard let text = fields[name] else { return [:] }
        guard let members = StructuredField.dictionary(text) else {
            throw UploadProblem(400, "invalid_request", "\(name) must be a list such as sha-256=:base64:.")
        }
        var values: DigestValues = [:]
        for (key, algorithm) in algorithms {
            guard let member = members[key] else { continue }
            guard case .bytes(let value) = member, value.count == algorithm.byteCount else {
                throw UploadProblem(
                    400,
                    "invalid_request",
                    "\(key) in \(name) must be \(algorithm.byteCount) bytes in base64."
                )
            }
            values[algorithm] = value
        }
        return values
    }

    /// The digest in `Content-Digest`, from the head or from an announced trailer (RFC 9530 §2, RFC 9110 §6.6.2).
    ///
    /// - Returns: `nil` without either. A trailer that was not announced is ignored: the bytes are stored before it
    ///   arrives.
    static func expectation(of request: Request) throws(UploadProblem) -> DigestExpectation? {
        let fields = request.head.fields
        if let digest = strongest(try values("Content-Digest", fields)) { return .known(digest) }
        guard fields.list("Trailer").contains(where: { $0.lowercasedASCII() == "content-digest" }) else { return nil }
        let body = request.body
        return .atEnd { () throws(UploadError) in
            do throws(UploadProblem) {
                if let digest = strongest(try values("Content-Digest", body.trailers)) { return digest }
            } catch {
                throw UploadError(.invalidRequest, error.detail)
            }
            throw UploadError(
                .invalidRequest,
                "The trailer field Content-Digest was announced but not sent with sha-256 or sha-512."
            )
        }
    }

    /// The digest with the strongest algorithm.
    static func strongest(_ values: DigestValues) -> ExpectedDigest? {
        for (_, algorithm) in algorithms.reversed() {
            if let value = values[algorithm] { return ExpectedDigest(algorithm: algorithm, value: value) }
        }
        return nil
    }

    /// The algorithm that `Want-Content-Digest` or `Want-Repr-Digest` prefers (§4).
    ///
    /// - Returns: The algorithm with the highest weight, sha-256 among equals; `nil` if none is wanted or the field,
    ///   which is only a hint, is malformed.
    static func wanted(_ name: FieldName, _ fields: HTTPFields) -> DigestAlgorithm? {
        guard let members = fields[name].flatMap({ StructuredField.dictionary($0) }) else { return nil }
        var best: (algorithm: DigestAlgorithm, weight: Int64)?
        for (key, algorithm) in algorithms {
            guard case .integer(let weight)? = members[key], (1...10).contains(weight) else { continue }
            if weight > best?.weight ?? 0 { best = (algorithm, weight) }
        }
        return best?.algorithm
    }

    /// Adds the digests of media that a request asks for to its response.
    ///
    /// `Repr-Digest` is the digest of the media, also in a response that only describes them: the draft defines it so
    /// for the response that completes an upload, which refers to the media (§3.1). `Content-Digest` is the digest of
    /// the content.
    ///
    /// - Parameters:
    ///   - response: The whole media, a part of them, or a description.
    ///   - head: The request.
    ///   - digest: Computes the digest of the media; if it returns `nil`, only the field is left out.
    package static func add(
        to response: inout Response,
        wantedBy head: RequestHead,
        _ digest: (DigestAlgorithm) async -> [UInt8]?
    ) async {
        if let algorithm = wanted("Want-Repr-Digest", head.fields), let value = await digest(algorithm) {
            response.fields["Repr-Digest"] = text(algorithm, value)
        }
        // A response to HEAD has no content (§B.2).
        guard head.method != .head, let algorithm = wanted("Want-Content-Digest", head.fields) else { return }
        let value: [UInt8]? =
            switch response.content {
            case .bytes(let bytes): Digest.hash(bytes, algorithm)
            // The digest of the media, because only their length is known before they are sent.
            case .file where response.status == 200, .stream(.some, _) where response.status == 200:
                await digest(algorithm)
            case .file, .stream, .empty: nil
            }
        if let value { response.fields["Content-Digest"] = text(algorithm, value) }
    }

    private static func text(_ algorithm: DigestAlgorithm, _ value: [UInt8]) -> String {
        let key = algorithms.first { $0.1 == algorithm }?.0 ?? algorithm.rawValue
        return key + "=" + StructuredField.text(value)
    }

    /// From the weakest to the strongest.
    private static let algorithms: [(String, DigestAlgorithm)] = [("sha-256", .sha256), ("sha-512", .sha512)]
}
