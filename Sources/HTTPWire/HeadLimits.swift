/// How large a request head may be.
package struct HeadLimits: Sendable, Equatable {
    /// Bytes of the request line without its CRLF; one more is answered with 414.
    package var maximumRequestLine: Int
    /// Bytes of the whole head with its last empty line; one more is answered with 431.
    package var maximumBytes: Int
    /// Number of fields; one more is answered with 431.
    package var maximumFields: Int

    package init(maximumRequestLine: Int = 8192, maximumBytes: Int = 65536, maximumFields: Int = 100) {
        self.maximumRequestLine = maximumRequestLine
        self.maximumBytes = maximumBytes
        self.maximumFields = maximumFields
    }
}

/// Why a request head is refused.
///
/// The connection cannot be used any further.
package struct HeadFailure: Error, Equatable, Sendable {
    /// 400, 414, 417, 431, 501 or 505.
    package let status: Status
    /// What is wrong, for whoever wrote the client; holds nothing that was received.
    package let reason: String

    package init(_ status: Status, _ reason: String) {
        self.status = status
        self.reason = reason
    }
}

/// Where the content of a request ends (RFC 9112 §6.3).
package enum BodyFraming: Equatable, Sendable {
    /// There is neither a Content-Length nor a Transfer-Encoding: no content.
    case none
    /// As many bytes as Content-Length says, perhaps 0.
    case length(Int64)
    case chunked
}

/// A complete request head and what it says about the bytes that follow it.
package struct ParsedHead: Sendable {
    package var head: RequestHead
    package var framing: BodyFraming
    /// Bytes that the head takes up at the beginning of the buffer, leading empty lines included.
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
