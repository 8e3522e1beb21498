internal import Digests

/// Writes the content coding `aws-chunked`, with or without signatures.
///
/// Source: "Transferring Payload in Multiple Chunks", Amazon S3 API Reference. A chunk is `size;chunk-signature=…` (or
/// only `size`), CRLF, data, CRLF, with the size in hexadecimal; the last chunk is empty. Trailers are between the line
/// of the last chunk and an empty line.
package struct AWSChunkedEncoder: Sendable {
    /// Ends the data of a chunk.
    package static let dataEnd: [UInt8] = [13, 10]

    static let signatureName = "chunk-signature"
    static let trailerSignatureName = "x-amz-trailer-signature"

    private var signer: SigV4ChunkSigner?

    /// - Parameter signer: The signer of a request with signed chunks; `nil` for unsigned chunks.
    package init(signer: SigV4ChunkSigner?) {
        self.signer = signer
    }

    /// The line before the data of a chunk.
    ///
    /// - Parameters:
    ///   - count: Bytes in the chunk, at least 1.
    ///   - hash: Their SHA-256; not evaluated for unsigned chunks.
    /// - Returns: The line including its end.
    package mutating func header(count: Int, sha256 hash: @autoclosure () -> [UInt8]) -> [UInt8] {
        precondition(count > 0, "an empty chunk ends the content")
        return line(count, hash())
    }

    /// One complete chunk; empty if `bytes` is empty.
    package mutating func chunk(_ bytes: [UInt8]) -> [UInt8] {
        guard !bytes.isEmpty else { return [] }
        return header(count: bytes.count, sha256: Digest.hash(bytes, .sha256)) + bytes + Self.dataEnd
    }

    /// The last chunk, the trailers with their signature, and the end of the content.
    ///
    /// - Parameter trailers: In any order; `nil` for content that announced no trailers.
    /// - Returns: Everything after the last data.
    package mutating func end(trailers: [SigningField]?) -> [UInt8] {
        var output = line(0, Digest.hash([], .sha256))
        if let trailers {
            for trailer in trailers.sorted(by: { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }) {
                output += Array("\(trailer.name):\(trailer.value)\r\n".utf8)
            }
            if let signature = signer?.sign(trailers: trailers) {
                output += Array("\(Self.trailerSignatureName):\(signature)\r\n".utf8)
            }
        }
        return output + Self.dataEnd
    }

    private mutating func line(_ count: Int, _ hash: @autoclosure () -> [UInt8]) -> [UInt8] {
        var text = String(count, radix: 16)
        if let signature = signer?.sign(sha256: hash()) { text += ";\(Self.signatureName)=\(signature)" }
        return Array(text.utf8) + Self.dataEnd
    }

    /// Length of the encoded content in bytes, for `Content-Length`.
    ///
    /// - Parameters:
    ///   - length: Bytes before encoding, as in `x-amz-decoded-content-length`.
    ///   - chunk: Bytes in each chunk except the last one with data; at least 1.
    ///   - isSigned: Whether chunks are signed.
    ///   - trailers: With values of the final length; `nil` for content without trailers.
    /// - Returns: In bytes.
    package static func encodedLength(
        of length: Int64,
        chunk: Int64,
        isSigned: Bool,
        trailers: [SigningField]?
    ) -> Int64 {
        let signature = isSigned ? Int64(1 + signatureName.utf8.count + 1 + 64) : 0
        func whole(_ count: Int64) -> Int64 { Int64(String(count, radix: 16).utf8.count) + signature + 2 + count + 2 }
        var total = length / chunk * whole(chunk)
        if length % chunk > 0 { total += whole(length % chunk) }
        for trailer in trailers ?? [] { total += Int64(trailer.name.utf8.count + 1 + trailer.value.utf8.count + 2) }
        if isSigned, trailers != nil { total += Int64(trailerSignatureName.utf8.count + 1 + 64 + 2) }
        return total + whole(0)
    }
}
