/// `method SP request-target SP HTTP-version` (RFC 9112 §3).
struct RequestLine: Sendable {
    let method: HTTPMethod
    let target: RequestTarget
    let version: HTTPVersion
    /// Length in bytes, including CRLF.
    let length: Int

    /// In bytes; the longest method in the IANA HTTP Method Registry, UPDATEREDIRECTREF, has 17.
    private static let maximumMethodLength = 32

    /// Parses the line in `range` of `buffer`: without its CRLF, not empty.
    init(_ buffer: Span<UInt8>, _ range: Range<Int>) throws(HeadFailure) {
        guard let methodEnd = Self.space(buffer, range) else {
            throw HeadFailure(400, "request line without a target")
        }
        let method = range.lowerBound..<methodEnd
        try Self.check(buffer, method: method)
        guard let targetEnd = Self.space(buffer, methodEnd + 1..<range.upperBound) else {
            // HTTP/0.9 (`GET /path`).
            throw HeadFailure(400, "request line without a version")
        }
        guard targetEnd > methodEnd + 1 else {
            throw HeadFailure(400, "more than one space between method and target")
        }
        version = try Self.version(buffer, targetEnd + 1..<range.upperBound)
        self.method = Self.method(buffer, method)
        target = try RequestTarget(buffer, methodEnd + 1..<targetEnd, method: self.method)
        length = range.count + 2
    }

    private static func space(_ buffer: Span<UInt8>, _ range: Range<Int>) -> Int? {
        var index = range.lowerBound
        while index < range.upperBound {
            if buffer[index] == 0x20 { return index }
            index += 1
        }
        return nil
    }

    /// RFC 9110 §9.1: a method is a token.
    ///
    /// RFC 9112 §3: a method longer than any that the server knows is refused with 501, not 400.
    private static func check(_ buffer: Span<UInt8>, method range: Range<Int>) throws(HeadFailure) {
        guard !range.isEmpty else { throw HeadFailure(400, "request line that begins with a space") }
        for index in range where !HTTPCharacters.isToken(buffer[index]) {
            throw HeadFailure(400, "character in the method that is not allowed there")
        }
        guard range.count <= maximumMethodLength else {
            throw HeadFailure(501, "method longer than \(maximumMethodLength) bytes")
        }
    }

    private static func method(_ buffer: Span<UInt8>, _ range: Range<Int>) -> HTTPMethod {
        HTTPMethod(rawValue: buffer.text(range))
    }

    /// RFC 9112 §2.3: `HTTP/` DIGIT `.` DIGIT, case-sensitive.
    ///
    /// RFC 9110 §2.5: a higher minor version of a known major version is treated as the highest known one.
    private static func version(_ buffer: Span<UInt8>, _ range: Range<Int>) throws(HeadFailure) -> HTTPVersion {
        let start = range.lowerBound
        guard range.count == 8, buffer[start] == UInt8(ascii: "H"), buffer[start + 1] == UInt8(ascii: "T"),
            buffer[start + 2] == UInt8(ascii: "T"), buffer[start + 3] == UInt8(ascii: "P"),
            buffer[start + 4] == UInt8(ascii: "/"), HTTPCharacters.isDigit(buffer[start + 5]),
            buffer[start + 6] == UInt8(ascii: "."), HTTPCharacters.isDigit(buffer[start + 7])
        else { throw HeadFailure(400, "request line that does not end with HTTP/1.1 or HTTP/1.0") }
        guard buffer[start + 5] == UInt8(ascii: "1") else {
            throw HeadFailure(505, "HTTP version other than 1.0 and 1.1")  // RFC 9110 §15.6.6
        }
        return buffer[start + 7] == UInt8(ascii: "0") ? .http1_0 : .http1_1
    }
}
