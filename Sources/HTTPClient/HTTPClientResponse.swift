package import HTTPWire

/// Status and fields of the final answer.
package struct HTTPClientHead: Sendable, Equatable {
    /// 200 to 999.
    package var status: Int
    /// Names without regard to case; a field that stands more than once has its values joined by ", ".
    package var headers: HTTPFields

    /// Bytes of the content, as the answer tells; `nil` if it does not, or not clearly.
    package var contentLength: Int64? {
        guard let text = headers["Content-Length"], text.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) else {
            return nil
        }
        return Int64(text)
    }
}

/// A whole answer.
package struct HTTPClientResponse: Sendable, Equatable {
    package var status: Int
    /// See `HTTPClientHead.headers`.
    package var headers: HTTPFields
    package var body: [UInt8]

    /// See `HTTPClientHead.contentLength`.
    package var contentLength: Int64? { HTTPClientHead(status: status, headers: headers).contentLength }
}
