/// Size limits of a request head.
package struct HeadLimits: Sendable, Equatable {
    /// Bytes of the request line without its CRLF; a longer one is refused with 414.
    package var maximumRequestLine: Int
    /// Bytes of the whole head with its last empty line; a longer one is refused with 431.
    package var maximumBytes: Int
    /// Number of fields; more are refused with 431.
    package var maximumFields: Int
    /// Beginnings of paths whose clients may state a length in two ways that are refused elsewhere.
    ///
    /// `Content-Length: 3000000.0`, and `Content-Length: 0` beside `Transfer-Encoding: chunked`. Both have one meaning,
    /// but an intermediary may refuse them.
    package var lenientPaths: [String]
    /// Whether a `Content-Length` beside `Transfer-Encoding: chunked` is accepted and not believed (RFC 9112 §6.1).
    ///
    /// The chunks alone say where the content ends, and the connection is closed after the response. OSS's SDK in C sends
    /// both.
    package var allowsLengthOfChunked = false

    package init(
        maximumRequestLine: Int = 8192,
        maximumBytes: Int = 65536,
        maximumFields: Int = 100,
        lenientPaths: [String] = []
    ) {
        self.maximumRequestLine = maximumRequestLine
        self.maximumBytes = maximumBytes
        self.maximumFields = maximumFields
        self.lenientPaths = lenientPaths
    }
}

/// Why a request head is refused.
///
/// The connection cannot be used any more.
package struct HeadFailure: Error, Equatable, Sendable {
    /// 400, 414, 417, 431, 501 or 505.
    package let status: Status
    /// What is wrong, for the developer of the client; contains no received text.
    package let reason: String

    package init(_ status: Status, _ reason: String) {
        self.status = status
        self.reason = reason
    }
}

/// Where the content of a request ends (RFC 9112 §6.3).
package enum BodyFraming: Equatable, Sendable {
    /// No content: there is neither a Content-Length nor a Transfer-Encoding.
    case none
    /// The value of Content-Length; can be 0.
    case length(Int64)
    case chunked
}

/// A complete request head and its framing.
package struct ParsedHead: Sendable {
    package var head: RequestHead
    package var framing: BodyFraming
    /// Length of the head in the buffer, including leading empty lines.
    package var consumed: Int
    /// Whether the client allows another request on this connection (RFC 9112 §9.3).
    package var keepsAlive: Bool
    /// Whether the client waits for 100 (Continue) before it sends the content that it announces (RFC 9110 §10.1.1).
    package var expectsContinue: Bool

    package init(head: RequestHead, framing: BodyFraming, consumed: Int, keepsAlive: Bool, expectsContinue: Bool) {
        self.head = head
        self.framing = framing
        self.consumed = consumed
        self.keepsAlive = keepsAlive
        self.expectsContinue = expectsContinue
    }
}
