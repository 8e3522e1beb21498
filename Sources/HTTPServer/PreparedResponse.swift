internal import Bytes
internal import HTTPWire

/// A response in the form in which it is sent.
struct PreparedResponse {
    /// The head, and short content.
    var start: [UInt8]
    /// Content that is not in `start`.
    var rest: Response.Content?
    var isChunked: Bool

    /// Content up to this size in bytes is sent together with its head.
    private static let shortContent = 65_536

    /// Whether only the end of the connection marks the end of the content (RFC 9112 §6.3).
    static func endsByClosing(_ response: Response, to head: RequestHead) -> Bool {
        guard case .stream(nil, _) = response.content else { return false }
        return head.version == .http1_0 && !response.status.forbidsContent
    }

    init(_ response: Response, to head: RequestHead, date: String, keepsAlive: Bool) {
        let isBare = head.method == .head || response.status.forbidsContent
        var framing: FramedResponseHead.Framing
        var short: [UInt8] = []
        var rest: Response.Content? = response.content
        switch response.content {
        case .empty:
            framing = isBare ? .none : .length(0)
            rest = nil
        case .bytes(let bytes):
            framing = .length(Int64(bytes.count))
            if bytes.count <= Self.shortContent { (short, rest) = (bytes, nil) }
        case .file(let region): framing = .length(region.length)
        case .stream(let length?, _): framing = .length(length)
        case .stream(nil, _): framing = Self.endsByClosing(response, to: head) ? .untilClose : .chunked
        }
        if response.status.forbidsContent { framing = .none }
        start = FramedResponseHead.bytes(
            ResponseHead(response.status, response.fields),
            date: date,
            framing: framing,
            keepsAlive: keepsAlive,
            isOld: head.version == .http1_0,
            content: isBare ? [] : short
        )
        self.rest = isBare ? nil : rest
        isChunked = framing == .chunked
    }

    /// An error that ends the connection.
    static func refusal(_ response: Response, date: String) -> [UInt8] {
        let content: [UInt8] = if case .bytes(let bytes) = response.content { bytes } else { [] }
        return FramedResponseHead.bytes(
            ResponseHead(response.status, response.fields),
            date: date,
            framing: .length(Int64(content.count)),
            keepsAlive: false,
            isOld: false,
            content: content
        )
    }
}
