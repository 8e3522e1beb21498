internal import Bytes
package import Digests
package import HTTPWire
package import UploadModel

/// The digests that a request announces (RFC 9530), with the algorithms that it does not deprecate (§5): sha-256 and sha-512.
package enum AnnouncedDigests {
    /// A field that cannot be understood; the text is for the client.
    package struct Malformed: Error, Equatable {
        package let detail: String
    }

    /// From the weakest to the strongest.
    package static let algorithms: [(String, DigestAlgorithm)] = [("sha-256", .sha256), ("sha-512", .sha512)]

    /// Parses `Content-Digest` (§2) or `Repr-Digest` (§3).
    ///
    /// - Returns: Without unknown and deprecated algorithms, which prove nothing.
    package static func values(_ name: FieldName, _ fields: HTTPFields) throws(Malformed) -> DigestValues {
        guard let text = fields[name] else { return [:] }
        guard let members = StructuredField.dictionary(text) else {
            throw Malformed(detail: "\(name) must be a list such as sha-256=:base64:.")
        }
        var values: DigestValues = [:]
        for (key, algorithm) in algorithms {
            guard let member = members[key] else { continue }
            guard case .bytes(let value) = member, value.count == algorithm.byteCount else {
                throw Malformed(detail: "\(key) in \(name) must be \(algorithm.byteCount) bytes in base64.")
            }
            values[algorithm] = value
        }
        return values
    }

    /// The digest in `Content-Digest`, from the head or from an announced trailer (RFC 9530 §2, RFC 9110 §6.6.2).
    ///
    /// - Returns: `nil` without either. A trailer that was not announced is ignored: the bytes are stored before it
    ///   arrives.
    package static func content(of request: Request) throws(Malformed) -> DigestExpectation? {
        let fields = request.head.fields
        if let digest = strongest(try values("Content-Digest", fields)) { return .known(digest) }
        guard fields.list("Trailer").contains(where: { $0.lowercasedASCII() == "content-digest" }) else { return nil }
        let body = request.body
        return .atEnd { () throws(UploadError) in
            do throws(Malformed) {
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
    package static func strongest(_ values: DigestValues) -> ExpectedDigest? {
        for (_, algorithm) in algorithms.reversed() {
            if let value = values[algorithm] { return ExpectedDigest(algorithm: algorithm, value: value) }
        }
        return nil
    }
}
