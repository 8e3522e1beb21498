package import HTTPWire

/// Status and fields of a final response.
package struct HTTPClientHead: Sendable, Equatable {
    /// 200 to 999.
    package var status: Int
    /// Names ignore case; the values of a repeated field are joined by ", ".
    package var headers: HTTPFields

    /// Announced length of the content in bytes; `nil` if it is missing or ambiguous.
    package var contentLength: Int64? {
        headers["Content-Length"].flatMap(Self.length)
    }

    /// `nil` if it is not a number of digits only, or exceeds 63 bits.
    static func length(_ text: String) -> Int64? {
        text.utf8.allSatisfy { $0 >= 0x30 && $0 <= 0x39 } ? Int64(text) : nil
    }
}

/// A complete response.
package struct HTTPClientResponse: Sendable, Equatable {
    package var status: Int
    /// See `HTTPClientHead.headers`.
    package var headers: HTTPFields
    package var body: [UInt8]

    /// See `HTTPClientHead.contentLength`.
    package var contentLength: Int64? { HTTPClientHead(status: status, headers: headers).contentLength }
}
