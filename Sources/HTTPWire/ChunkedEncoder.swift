/// Writes the chunked transfer coding (RFC 9112 §7.1).
package enum ChunkedEncoder {
    /// The CRLF that ends the data of a chunk.
    package static let dataEnd: [UInt8] = [13, 10]

    /// The size line before `count` bytes of data.
    ///
    /// - Precondition: `count` is at least 1; a chunk of size 0 ends the body.
    package static func header(_ count: Int) -> [UInt8] {
        precondition(count > 0, "a chunk of size 0 ends the body")
        return Array(String(count, radix: 16).utf8) + dataEnd
    }

    /// A complete chunk; empty if `bytes` is empty.
    package static func chunk(_ bytes: [UInt8]) -> [UInt8] {
        guard !bytes.isEmpty else { return [] }
        var output: [UInt8] = []
        output.reserveCapacity(bytes.count + 20)
        output.append(contentsOf: header(bytes.count))
        output.append(contentsOf: bytes)
        output.append(contentsOf: dataEnd)
        return output
    }

    /// The last chunk, the trailer fields and the end of the body.
    package static func terminator(trailers: HTTPFields = HTTPFields()) -> [UInt8] {
        var output: [UInt8] = [UInt8(ascii: "0"), 13, 10]
        trailers.serialize(into: &output)
        output.append(contentsOf: dataEnd)
        return output
    }
}
