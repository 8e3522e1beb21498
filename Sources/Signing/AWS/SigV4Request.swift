internal import Bytes
internal import Digests

/// A name and its value: a header field, or a decoded parameter of a query.
package struct SigV4Field: Sendable, Equatable {
    package let name: String
    package let value: String

    package init(_ name: String, _ value: String) {
        self.name = name
        self.value = value
    }
}

/// What a signature of a request is made of.
package struct SigV4Request: Sendable, Equatable {
    package var method: String
    /// The path as it stands in the request line, with its escapes, without the query.
    package var path: String
    /// The parameters of the query, decoded, in any order; one without `=` has an empty value.
    package var query: [SigV4Field]
    /// In any order, their names in any case.
    ///
    /// `host` is one of them; a signer does not look at those that it adds itself.
    package var headers: [SigV4Field]
    /// What signers say of the content.
    ///
    /// A verifier reads it from `x-amz-content-sha256`, and takes this one only if the request has none and need not have it.
    package var payload: SigV4Payload
    /// Unix seconds of the header `Date` in the form of HTTP, if there is one; for verifiers, which use it where
    /// `x-amz-date` is missing.
    package var date: Int64?

    /// A request with these parts; `host` is put in front of the headers, unless it is `nil` because it is there already.
    package init(
        method: String,
        host: String? = nil,
        path: String,
        query: [SigV4Field] = [],
        headers: [SigV4Field] = [],
        payload: SigV4Payload = .empty,
        date: Int64? = nil
    ) {
        self.method = method
        self.path = path
        self.query = query
        self.headers = (host.map { [SigV4Field("host", $0)] } ?? []) + headers
        self.payload = payload
        self.date = date
    }

    /// The path of an object in the form in which S3 signs it, so that it can be sent as it is.
    ///
    /// - Parameter text: Decoded; every `/` separates segments.
    /// - Returns: All but `/` and the unreserved characters of RFC 3986 §2.3 escaped.
    package static func path(of text: String) -> String {
        var bytes: [UInt8] = []
        for (index, segment) in text.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
            .enumerated()
        {
            if index > 0 { bytes.append(UInt8(ascii: "/")) }
            FormEncoding.append(segment, to: &bytes)
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// A query in the form and order in which it is signed, without `?`, so that it can be sent as it is.
    package static func query(of parameters: [SigV4Field]) -> String {
        SigV4CanonicalRequest.query(parameters)
    }
}

/// What a signature says of the content ("Signature Calculations for the Authorization Header", Amazon S3 API Reference,
/// "Overview"); the text stands in `x-amz-content-sha256` and in the last line of the canonical request.
package enum SigV4Payload: Sendable, Equatable {
    /// SHA-256 of the whole content, 32 bytes.
    case sha256([UInt8])
    /// Any content.
    case unsigned
    /// Content in chunks that are signed one by one.
    case signedChunks
    /// Content in chunks that are signed one by one, with signed trailers.
    case signedChunksAndTrailers
    /// Content in chunks that are not signed, with trailers that are not signed.
    case unsignedChunksAndTrailers

    /// No content.
    package static let empty = SigV4Payload(content: [])

    package init(content: some Collection<UInt8>) {
        self = .sha256(Digest.hash(content, .sha256))
    }

    /// - Parameter text: As in `x-amz-content-sha256`; `nil` for what is no such value, and for the algorithms with
    ///   elliptic curves (SigV4A).
    package init?(_ text: String) {
        switch text {
        case "UNSIGNED-PAYLOAD": self = .unsigned
        case "STREAMING-AWS4-HMAC-SHA256-PAYLOAD": self = .signedChunks
        case "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER": self = .signedChunksAndTrailers
        case "STREAMING-UNSIGNED-PAYLOAD-TRAILER": self = .unsignedChunksAndTrailers
        default:
            // In lower case only, because the text itself is signed.
            guard let hash = SigV4Hash(text) else { return nil }
            self = .sha256(hash.bytes)
        }
    }

    package var text: String {
        switch self {
        case .sha256(let hash): Hexadecimal.encode(hash)
        case .unsigned: "UNSIGNED-PAYLOAD"
        case .signedChunks: "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
        case .signedChunksAndTrailers: "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
        case .unsignedChunksAndTrailers: "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
        }
    }
}

/// 32 bytes as AWS writes them: 64 hexadecimal digits in lower case.
struct SigV4Hash {
    let bytes: [UInt8]

    init?(_ text: some StringProtocol) {
        guard text.utf8.count == 64, let bytes = Hexadecimal.decode(text),
            !text.utf8.contains(where: { (UInt8(ascii: "A")...UInt8(ascii: "F")).contains($0) })
        else { return nil }
        self.bytes = bytes
    }
}

/// In what services differ.
package struct SigV4Rules: Sendable, Equatable {
    /// The path is escaped as it came, so that a `%` of it becomes `%25`; otherwise its escapes are first resolved.
    package var escapesPathTwice: Bool
    /// Empty segments, `.` and `..` are resolved (RFC 3986 §5.2.4).
    package var normalizesPath: Bool
    /// `x-amz-content-sha256` is sent, and must be there.
    package var needsPayloadHeader: Bool

    package init(escapesPathTwice: Bool, normalizesPath: Bool, needsPayloadHeader: Bool) {
        self.escapesPathTwice = escapesPathTwice
        self.normalizesPath = normalizesPath
        self.needsPayloadHeader = needsPayloadHeader
    }

    /// Amazon S3 and what speaks as it does: a key may be `a//b/../c`.
    package static let s3 = SigV4Rules(escapesPathTwice: false, normalizesPath: false, needsPayloadHeader: true)

    /// All other services.
    package static let general = SigV4Rules(escapesPathTwice: true, normalizesPath: true, needsPayloadHeader: false)
}
