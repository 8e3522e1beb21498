internal import Bytes
internal import Digests

extension SigningRequest {
    /// A query in the form and order in which AWS signs it, without `?`, so that it can be sent as it is.
    package static func query(of parameters: [SigningField]) -> String {
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
        let text = String(text)
        guard SigningText.isHexadecimal(text, count: 32), let bytes = Hexadecimal.decode(text) else { return nil }
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
