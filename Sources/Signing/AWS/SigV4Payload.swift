internal import Bytes
internal import Digests

extension SigningRequest {
    /// A query in AWS's canonical form and order, without `?`, so that it can be sent unchanged.
    package static func query(of parameters: [SigningField]) -> String {
        SigV4CanonicalRequest.query(parameters)
    }
}

/// What a signature says about the content ("Signature Calculations for the Authorization Header", Amazon S3 API
/// Reference, "Overview").
///
/// The text is in `x-amz-content-sha256` and in the last line of the canonical request.
package enum SigV4Payload: Sendable, Equatable {
    /// SHA-256 of the whole content, 32 bytes.
    case sha256([UInt8])
    /// The content is not signed.
    case unsigned
    /// Signed chunks.
    case signedChunks
    /// Signed chunks with signed trailers.
    case signedChunksAndTrailers
    /// Unsigned chunks with unsigned trailers.
    case unsignedChunksAndTrailers

    /// No content.
    package static let empty = SigV4Payload(content: [])

    package init(content: some Collection<UInt8>) {
        self = .sha256(Digest.hash(content, .sha256))
    }

    /// - Parameter text: As in `x-amz-content-sha256`; the result is `nil` for an invalid value, and for the algorithms
    ///   with elliptic curves (SigV4A).
    package init?(_ text: String) {
        switch text {
        case "UNSIGNED-PAYLOAD": self = .unsigned
        case "STREAMING-AWS4-HMAC-SHA256-PAYLOAD": self = .signedChunks
        case "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER": self = .signedChunksAndTrailers
        case "STREAMING-UNSIGNED-PAYLOAD-TRAILER": self = .unsignedChunksAndTrailers
        default:
            // Only lower case, because the text itself is signed.
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

/// 32 bytes in AWS's notation: 64 hexadecimal digits in lower case.
struct SigV4Hash {
    let bytes: [UInt8]

    init?(_ text: some StringProtocol) {
        let text = String(text)
        guard SigningText.isHexadecimal(text, count: 32), let bytes = Hexadecimal.decode(text) else { return nil }
        self.bytes = bytes
    }
}

/// Differences between services.
package struct SigV4Rules: Sendable, Equatable {
    /// Whether the path is escaped again, so that a `%` in it becomes `%25`; otherwise its escapes are decoded first.
    package var escapesPathTwice: Bool
    /// Whether empty segments, `.` and `..` are removed (RFC 3986 §5.2.4).
    package var normalizesPath: Bool
    /// Whether `x-amz-content-sha256` is sent and required.
    package var needsPayloadHeader: Bool

    package init(escapesPathTwice: Bool, normalizesPath: Bool, needsPayloadHeader: Bool) {
        self.escapesPathTwice = escapesPathTwice
        self.normalizesPath = normalizesPath
        self.needsPayloadHeader = needsPayloadHeader
    }

    /// Amazon S3 and compatible stores: a key can be `a//b/../c`.
    package static let s3 = SigV4Rules(escapesPathTwice: false, normalizesPath: false, needsPayloadHeader: true)

    /// All other services.
    package static let general = SigV4Rules(escapesPathTwice: true, normalizesPath: true, needsPayloadHeader: false)
}
