package import Digests
package import HTTPWire
internal import UploadCore

/// Digest fields (RFC 9530), by the algorithms that it does not call deprecated (§5): sha-256 and sha-512.
package enum DigestFields {
    /// What `Content-Digest` (§2) or `Repr-Digest` (§3) says.
    ///
    /// - Returns: Nothing for algorithms that are unknown or deprecated, which prove nothing.
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

    /// What `Content-Digest` says, in the head or in the trailer that the head announces (RFC 9530 §2, RFC 9110 §6.6.2).
    ///
    /// - Returns: `nil` for a request without either. A trailer that was not announced comes too late: the bytes are stored.
    static func expectation(of request: Request) throws(UploadProblem) -> DigestExpectation? {
        let fields = request.head.fields
        if let digest = strongest(try values("Content-Digest", fields)) { return .known(digest) }
        guard fields.list("Trailer").contains(where: { $0.lowercased() == "content-digest" }) else { return nil }
        let body = request.body
        return .told { () throws(UploadError) in
            do throws(UploadProblem) {
                if let digest = strongest(try values("Content-Digest", body.trailers)) { return digest }
            } catch {
                throw UploadError(.invalidRequest, error.detail)
            }
            throw UploadError(
                .invalidRequest,
                "The trailer field Content-Digest was announced and did not come with sha-256 or sha-512."
            )
        }
    }

    /// The digest by the strongest algorithm.
    static func strongest(_ values: DigestValues) -> ExpectedDigest? {
        for (_, algorithm) in algorithms.reversed() {
            if let value = values[algorithm] { return ExpectedDigest(algorithm: algorithm, value: value) }
        }
        return nil
    }

    /// The algorithm that `Want-Content-Digest` or `Want-Repr-Digest` prefers (§4).
    ///
    /// - Returns: That of the largest weight, sha-256 among equals; `nil` if none is wanted, or the field is malformed: it is a
    ///   hint.
    static func wanted(_ name: FieldName, _ fields: HTTPFields) -> DigestAlgorithm? {
        guard let members = fields[name].flatMap({ StructuredField.dictionary($0) }) else { return nil }
        var best: (algorithm: DigestAlgorithm, weight: Int64)?
        for (key, algorithm) in algorithms {
            guard case .integer(let weight)? = members[key], (1...10).contains(weight) else { continue }
            if weight > best?.weight ?? 0 { best = (algorithm, weight) }
        }
        return best?.algorithm
    }

    /// Adds the digests that a request wants of media to its answer.
    ///
    /// `Repr-Digest` is that of the media, also in an answer that only tells about them: the draft has it so for the answer that
    /// ends an upload, and the media are what such an answer refers to (§3.1). `Content-Digest` is that of the content.
    ///
    /// - Parameters:
    ///   - response: The whole media, a part of them, or what is told about them.
    ///   - head: The request.
    ///   - digest: Computes that of the media; `nil` where it can not: then the field is left out, and nothing else.
    package static func add(
        to response: inout Response,
        wantedBy head: RequestHead,
        _ digest: (DigestAlgorithm) async -> [UInt8]?
    ) async {
        if let algorithm = wanted("Want-Repr-Digest", head.fields), let value = await digest(algorithm) {
            response.fields["Repr-Digest"] = text(algorithm, value)
        }
        // To HEAD there is no content (§B.2).
        guard head.method != .head, let algorithm = wanted("Want-Content-Digest", head.fields) else { return }
        let value: [UInt8]? =
            switch response.content {
            case .bytes(let bytes): Digest.hash(bytes, algorithm)
            // Of the media, since only their length is known before they are sent.
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

    /// The weakest first.
    private static let algorithms: [(String, DigestAlgorithm)] = [("sha-256", .sha256), ("sha-512", .sha512)]
}
