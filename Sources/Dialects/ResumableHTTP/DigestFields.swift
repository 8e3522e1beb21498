package import Digests
package import HTTPWire
internal import RESTKit
internal import UploadModel

/// Digest fields (RFC 9530).
package enum DigestFields {
    /// See `AnnouncedDigests.values`.
    static func values(_ name: FieldName, _ fields: HTTPFields) throws(UploadProblem) -> DigestValues {
        do throws(AnnouncedDigests.Malformed) {
            return try AnnouncedDigests.values(name, fields)
        } catch {
            throw UploadProblem(400, "invalid_request", error.detail)
        }
    }

    /// See `AnnouncedDigests.content`.
    static func expectation(of request: Request) throws(UploadProblem) -> DigestExpectation? {
        do throws(AnnouncedDigests.Malformed) {
            return try AnnouncedDigests.content(of: request)
        } catch {
            throw UploadProblem(400, "invalid_request", error.detail)
        }
    }

    /// The algorithm that `Want-Content-Digest` or `Want-Repr-Digest` prefers (§4).
    ///
    /// - Returns: The algorithm with the highest weight, sha-256 among equals; `nil` if none is wanted or the field,
    ///   which is only a hint, is malformed.
    static func wanted(_ name: FieldName, _ fields: HTTPFields) -> DigestAlgorithm? {
        guard let members = fields[name].flatMap({ StructuredField.dictionary($0) }) else { return nil }
        var best: (algorithm: DigestAlgorithm, weight: Int64)?
        for (key, algorithm) in AnnouncedDigests.algorithms {
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
        let key = AnnouncedDigests.algorithms.first { $0.1 == algorithm }?.0 ?? algorithm.rawValue
        return key + "=" + StructuredField.text(value)
    }
}
