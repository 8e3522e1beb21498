/// What the fields of a request head say about the message: framing, persistence, Host, expectation.
struct HeadSemantics: Sendable {
    private var hasHost = false
    private var contentLength: Int64?
    /// Whether a fraction of zeros follows the number.
    private var hasFraction = false
    private var codings = Codings.none
    private var saysClose = false
    private var saysKeepAlive = false
    private var expectation = Expectation.none

    private enum Codings { case none, chunked, unknown, unknownThenChunked }
    private enum Expectation { case none, `continue`, other }

    struct Meaning {
        let framing: BodyFraming
        let keepsAlive: Bool
        let expectsContinue: Bool
    }

    /// Processes one field.
    mutating func take(_ buffer: Span<UInt8>, name: Range<Int>, value: Range<Int>) throws(HeadFailure) {
        switch name.count {
        case 4 where buffer.equals(name, ignoringCase: "host"):
            try takeHost(buffer, value)
        case 6 where buffer.equals(name, ignoringCase: "expect"):
            takeExpectation(buffer, value)
        case 10 where buffer.equals(name, ignoringCase: "connection"):
            takeConnection(buffer, value)
        case 14 where buffer.equals(name, ignoringCase: "content-length"):
            try takeContentLength(buffer, value)
        case 17 where buffer.equals(name, ignoringCase: "transfer-encoding"):
            try takeTransferEncoding(buffer, value)
        default:
            break
        }
    }

    /// Derives the result after the last field.
    ///
    /// - Parameters:
    ///   - version: Of the request.
    ///   - allowsBoth: See `HeadLimits.allowsLengthOfChunked`.
    ///   - isLenient: See `HeadLimits.lenientPaths`.
    /// - Returns: What the fields say.
    /// - Throws: `HeadFailure`.
    func conclude(
        version: HTTPVersion,
        allowsBoth: Bool,
        isLenient: @autoclosure () -> Bool
    ) throws(HeadFailure) -> Meaning {
        // RFC 9112 §3.2.
        guard hasHost || version == .http1_0 else { throw HeadFailure(400, "no Host field") }
        let framing = try framing(version: version, allowsBoth, isLenient)
        if version == .http1_1, expectation == .other {
            throw HeadFailure(417, "expectation other than 100-continue")  // RFC 9110 §10.1.1
        }
        return Meaning(
            framing: framing,
            // RFC 9112 §9.3; §6.3 for a request with both ways to say a length.
            keepsAlive: !saysClose && (version == .http1_1 || saysKeepAlive)
                && (codings == .none || contentLength == nil),
            // RFC 9110 §10.1.1: ignored in HTTP/1.0 and for requests without content. Clients that announce an empty one (botocore) wait
            // for the 100, too.
            expectsContinue: version == .http1_1 && expectation == .continue && framing != .none
        )
    }

    /// RFC 9112 §6.1 and §6.3.
    private func framing(
        version: HTTPVersion,
        _ allowsBoth: Bool,
        _ isLenient: () -> Bool
    ) throws(HeadFailure) -> BodyFraming {
        guard !hasFraction || isLenient() else { throw HeadFailure(400, "Content-Length is not a number") }
        guard codings != .none else { return contentLength.map(BodyFraming.length) ?? .none }
        guard version == .http1_1 else { throw HeadFailure(400, "Transfer-Encoding in HTTP/1.0") }
        guard contentLength == nil || allowsBoth || contentLength == 0 && isLenient() else {
            throw HeadFailure(400, "both Transfer-Encoding and Content-Length")
        }
        switch codings {
        case .chunked: return .chunked
        case .unknownThenChunked: throw HeadFailure(501, "transfer coding other than chunked")
        case .unknown, .none: throw HeadFailure(400, "last transfer coding is not chunked")
        }
    }

    /// RFC 9112 §3.2: more than one Host field, or an invalid value, is refused with 400.
    private mutating func takeHost(_ buffer: Span<UInt8>, _ value: Range<Int>) throws(HeadFailure) {
        guard !hasHost else { throw HeadFailure(400, "more than one Host field") }
        hasHost = true
        guard Authority.isValidHostField(buffer, value) else { throw HeadFailure(400, "Host is not host[:port]") }
    }

    /// RFC 9110 §8.6: digits only.
    ///
    /// A list is refused even if its numbers are equal, and so is a repeated field (RFC 9112 §6.3).
    private mutating func takeContentLength(_ buffer: Span<UInt8>, _ value: Range<Int>) throws(HeadFailure) {
        guard contentLength == nil else { throw HeadFailure(400, "more than one Content-Length") }
        guard !value.isEmpty else { throw HeadFailure(400, "empty Content-Length") }
        var length: Int64 = 0
        for index in value {
            let byte = buffer[index]
            if byte == UInt8(ascii: "."), index > value.lowerBound, index + 1 < value.upperBound {
                for zero in index + 1..<value.upperBound where buffer[zero] != UInt8(ascii: "0") {
                    throw HeadFailure(400, "Content-Length is not a number")
                }
                hasFraction = true
                break
            }
            guard HTTPCharacters.isDigit(byte) else { throw HeadFailure(400, "Content-Length is not a number") }
            let (tenfold, overflowed) = length.multipliedReportingOverflow(by: 10)
            let (sum, carried) = tenfold.addingReportingOverflow(Int64(byte - UInt8(ascii: "0")))
            guard !overflowed, !carried else { throw HeadFailure(400, "Content-Length is too large a number") }
            length = sum
        }
        contentLength = length
    }

    /// RFC 9112 §6.1, §7: only `chunked` is supported, once and as the last coding.
    private mutating func takeTransferEncoding(_ buffer: Span<UInt8>, _ value: Range<Int>) throws(HeadFailure) {
        try buffer.forEachListElement(in: value) { (element) throws(HeadFailure) in
            var isToken = !element.isEmpty
            for index in element where !HTTPCharacters.isToken(buffer[index]) { isToken = false }
            guard isToken else { throw HeadFailure(400, "Transfer-Encoding is not a list of codings") }
            if codings == .chunked || codings == .unknownThenChunked {
                throw HeadFailure(400, "chunked is not the last transfer coding, or is there twice")
            }
            if buffer.equals(element, ignoringCase: "chunked") {
                codings = codings == .none ? .chunked : .unknownThenChunked
            } else {
                codings = .unknown
            }
        }
    }

    /// RFC 9110 §7.6.1.
    private mutating func takeConnection(_ buffer: Span<UInt8>, _ value: Range<Int>) {
        buffer.forEachListElement(in: value) { element in
            if buffer.equals(element, ignoringCase: "close") { saysClose = true }
            if buffer.equals(element, ignoringCase: "keep-alive") { saysKeepAlive = true }
        }
    }

    private mutating func takeExpectation(_ buffer: Span<UInt8>, _ value: Range<Int>) {
        buffer.forEachListElement(in: value) { element in
            if buffer.equals(element, ignoringCase: "100-continue") {
                if expectation == .none { expectation = .continue }
            } else if !element.isEmpty {
                expectation = .other
            }
        }
    }
}
