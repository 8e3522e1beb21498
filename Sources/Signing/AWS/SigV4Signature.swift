internal import Bytes
internal import Digests

/// A signature, which is also the seed for the signatures of chunks.
package struct SigV4Signature: Sendable {
    static let algorithm = "AWS4-HMAC-SHA256"

    /// 64 hexadecimal digits in lower case.
    package let text: String
    /// `YYYYMMDD'T'HHMMSS'Z'`.
    package let timestamp: String
    package let scope: SigV4Scope
    let key: HMACKey

    /// The signature of a canonical request ("Create a signed AWS API request", steps 2 to 4).
    init(canonicalRequest: [UInt8], timestamp: String, scope: SigV4Scope, key: HMACKey) {
        let hash = Hexadecimal.encode(Digest.hash(canonicalRequest, .sha256))
        let stringToSign = "\(Self.algorithm)\n\(timestamp)\n\(scope.text)\n\(hash)"
        text = Hexadecimal.encode(key.code(for: Array(stringToSign.utf8)))
        self.timestamp = timestamp
        self.scope = scope
        self.key = key
    }

    /// Signs the chunks of the content, with this signature as the seed.
    package var chunkSigner: SigV4ChunkSigner { SigV4ChunkSigner(seed: self) }
}
