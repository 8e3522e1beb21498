/// Writes the heads of final and interim responses as HTTP/1.1 (RFC 9112 §4).
package enum ResponseHeadWriter {
    /// Status line, fields and the empty line.
    package static func bytes(_ head: ResponseHead) -> [UInt8] {
        var output: [UInt8] = []
        write(head, into: &output)
        return output
    }

    /// Appends status line, fields and the empty line to `output`.
    ///
    /// Names and values cannot contain line ends: `HTTPFields` only holds validated ones.
    package static func write(_ head: ResponseHead, into output: inout [UInt8]) {
        let phrase = head.status.phrase.utf8
        output.reserveCapacity(
            output.count + 17 + phrase.count + head.fields.bytes.count + 4 * head.fields.entries.count
        )
        output.append(contentsOf: protocolPrefix)
        let code = head.status.code
        output.append(UInt8(ascii: "0") + UInt8(code / 100 % 10))
        output.append(UInt8(ascii: "0") + UInt8(code / 10 % 10))
        output.append(UInt8(ascii: "0") + UInt8(code % 10))
        output.append(UInt8(ascii: " "))
        output.append(contentsOf: phrase)
        output.append(13)
        output.append(10)
        head.fields.serialize(into: &output)
        output.append(13)
        output.append(10)
    }

    private static let protocolPrefix = Array("HTTP/1.1 ".utf8)
}
