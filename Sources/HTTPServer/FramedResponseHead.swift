internal import Bytes
internal import HTTPWire

/// The head of a final response, with the fields that the server itself adds.
enum FramedResponseHead {
    /// How the end of the content is marked (RFC 9112 §6).
    enum Framing: Equatable {
        /// No content and no framing field.
        case none
        case length(Int64)
        case chunked
        /// For an HTTP/1.0 client.
        case untilClose
    }

    /// The bytes of the head, followed by `content`.
    static func bytes(
        _ head: ResponseHead,
        date: String,
        framing: Framing,
        keepsAlive: Bool,
        isOld: Bool,
        content: [UInt8] = []
    ) -> [UInt8] {
        var output: [UInt8] = []
        output.reserveCapacity(head.fields.bytes.count + 256 + content.count)
        ResponseHeadWriter.write(head, into: &output)
        output.removeLast(2)
        output.append(contentsOf: "Date: ".utf8)
        output.append(contentsOf: date.utf8)
        switch framing {
        case .none, .untilClose: break
        case .length(let length):
            output.append(contentsOf: "\r\nContent-Length: ".utf8)
            output.append(decimal: length)
        case .chunked: output.append(contentsOf: "\r\nTransfer-Encoding: chunked".utf8)
        }
        if !keepsAlive {
            output.append(contentsOf: "\r\nConnection: close".utf8)
        } else if isOld {
            output.append(contentsOf: "\r\nConnection: keep-alive".utf8)
        }
        output.append(contentsOf: "\r\n\r\n".utf8)
        output.append(contentsOf: content)
        return output
    }
}
