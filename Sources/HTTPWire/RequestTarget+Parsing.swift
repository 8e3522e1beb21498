internal import Bytes

extension RequestTarget {
    /// Parses a request target.
    ///
    /// - Parameters:
    ///   - text: For example `/a?b`.
    ///   - method: Decides whether `*` is allowed.
    /// - Throws: `HeadFailure` 400, or 501 for CONNECT.
    package init(parsing text: some StringProtocol, method: HTTPMethod = .get) throws(HeadFailure) {
        let bytes = Array(text.utf8)
        try self.init(bytes.span, 0..<bytes.count, method: method)
    }

    /// Parses origin-form, absolute-form and asterisk-form (RFC 9112 §3.2).
    ///
    /// Dot segments are ordinary segments; `*` has no segments.
    init(_ buffer: Span<UInt8>, _ range: Range<Int>, method: HTTPMethod) throws(HeadFailure) {
        guard method != HTTPMethod(rawValue: "CONNECT") else {
            // RFC 9110 §9.3.6: CONNECT is for proxies. A tunnel through this origin server would bypass the protection
            // of the network behind it.
            throw HeadFailure(501, "CONNECT is not supported: this server is not a proxy")
        }
        guard let first = range.first else { throw HeadFailure(400, "empty request target") }
        var queryMark: Int?
        for index in range {
            let byte = buffer[index]
            guard byte > 0x20, byte < 0x7F else {
                throw HeadFailure(400, "character in the request target that must be percent-encoded")
            }
            // RFC 9110 §7.1: a target holds no fragment.
            guard byte != UInt8(ascii: "#") else { throw HeadFailure(400, "fragment in the request target") }
            if byte == UInt8(ascii: "?"), queryMark == nil { queryMark = index }
        }
        let rawQuery = queryMark.map { buffer.text($0 + 1..<range.upperBound) }
        let hierarchyEnd = queryMark ?? range.upperBound

        if buffer[first] == UInt8(ascii: "/") {
            try self.init(buffer, path: first..<hierarchyEnd, rawQuery: rawQuery, authority: nil)
        } else if range.count == 1, buffer[first] == UInt8(ascii: "*") {
            guard method == .options else {
                throw HeadFailure(400, "request target * with a method other than OPTIONS")  // RFC 9112 §3.2.4
            }
            self.init(rawPath: "*", rawQuery: nil, authority: nil, segments: [])
        } else if let scheme = Authority.schemeLength(buffer, range) {
            // RFC 9112 §3.2.2.
            let start = first + scheme
            guard start <= hierarchyEnd else { throw HeadFailure(400, "absolute request target with an invalid host") }
            var end = start
            while end < hierarchyEnd, buffer[end] != UInt8(ascii: "/") { end += 1 }
            guard Authority.isValid(buffer, start..<end) else {
                throw HeadFailure(400, "absolute request target with an invalid host")
            }
            try self.init(buffer, path: end..<hierarchyEnd, rawQuery: rawQuery, authority: buffer.text(start..<end))
        } else {
            throw HeadFailure(400, "request target is neither a path nor an http URL")
        }
    }

    /// Decodes a path that is empty or begins with a slash.
    private init(
        _ buffer: Span<UInt8>,
        path: Range<Int>,
        rawQuery: String?,
        authority: String?
    ) throws(HeadFailure) {
        guard !path.isEmpty else {
            self.init(rawPath: "/", rawQuery: rawQuery, authority: authority, segments: [""])
            return
        }
        var segments: [String] = []
        // Most paths have no more; else it would grow by one allocation for each.
        segments.reserveCapacity(4)
        var start = path.lowerBound + 1
        var isEncoded = false
        for index in path.lowerBound + 1...path.upperBound {
            if index == path.upperBound || buffer[index] == UInt8(ascii: "/") {
                let segment = start..<index
                segments.append(isEncoded ? try Self.decode(buffer, segment) : buffer.text(segment))
                start = index + 1
                isEncoded = false
            } else if buffer[index] == UInt8(ascii: "%") {
                isEncoded = true
            }
        }
        self.init(rawPath: buffer.text(path), rawQuery: rawQuery, authority: authority, segments: segments)
    }

    private static func decode(_ buffer: Span<UInt8>, _ range: Range<Int>) throws(HeadFailure) -> String {
        guard let bytes = PercentEncoding.decode(buffer.copy(range)) else {
            throw HeadFailure(400, "% in the path that is not followed by two hexadecimal digits")  // RFC 3986 §2.1
        }
        guard !bytes.contains(where: { $0 < 0x20 || $0 == 0x7F }) else {
            throw HeadFailure(400, "encoded control character in the path")  // RFC 3986 §7.3
        }
        guard let text = String(clientText: bytes) else {
            throw HeadFailure(400, "path is not \(ClientText.requirement)")
        }
        return text
    }
}
