internal import Bytes
internal import Digests

/// Signs the chunks of one content; each signature depends on the previous one.
///
/// Sources: "Signature Calculations for the Authorization Header: Transferring Payload in Multiple Chunks" and "… Including
/// Trailing Headers", Amazon S3 API Reference.
package struct SigV4ChunkSigner: Sendable {
    private let timestamp: String
    private let scope: String
    private let key: HMACKey
    private var previous: String

    private static let hashOfNothing = Hexadecimal.encode(Digest.hash([], .sha256))

    init(seed: SigV4Signature) {
        timestamp = seed.timestamp
        scope = seed.scope.text
        key = seed.key
        previous = seed.text
    }

    /// The signature of the next chunk; the last chunk is empty.
    ///
    /// - Parameter hash: SHA-256 of its data.
    /// - Returns: 64 hexadecimal digits.
    package mutating func sign(sha256 hash: [UInt8]) -> String {
        sign("PAYLOAD", "\(Self.hashOfNothing)\n\(Hexadecimal.encode(hash))")
    }

    /// The signature of the trailers, which follows the signature of the last chunk.
    package mutating func sign(trailers: [SigningField]) -> String {
        sign("TRAILER", Hexadecimal.encode(Digest.hash(Self.canonical(trailers), .sha256)))
    }

    private mutating func sign(_ kind: String, _ hashes: String) -> String {
        let stringToSign = "AWS4-HMAC-SHA256-\(kind)\n\(timestamp)\n\(scope)\n\(previous)\n\(hashes)"
        previous = Hexadecimal.encode(key.code(for: Array(stringToSign.utf8)))
        return previous
    }

    /// Lines `name:value` in the order of their names, each ending with a line feed.
    private static func canonical(_ trailers: [SigningField]) -> [UInt8] {
        let lines = trailers.map { (name: SigningText.lowercased($0.name), value: $0.value) }
        var text: [UInt8] = []
        for line in lines.sorted(by: { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }) {
            text.append(contentsOf: "\(line.name):".utf8)
            SigV4CanonicalRequest.appendValue(line.value, to: &text)
            text.append(UInt8(ascii: "\n"))
        }
        return text
    }
}
