internal import Bytes

/// Decodes the framing of the chunked transfer coding (RFC 9112 §7.1) without touching the content.
///
/// Framing bytes are consumed as soon as they are available, so the caller's buffer need not hold whole lines. The
/// caller takes the content, either out of the buffer or directly from the socket, and reports how much it took:
///
///     while true {
///         switch try decoder.next(buffer) {
///         case .needMore(let consumed):        // drop `consumed`; then read more into the buffer, or move up to
///                                              // `remainingInChunk` bytes past it and report `tookData`
///         case .data(let skip, let count):     // drop `skip`; take 1...count bytes and report `tookData`
///         case .end(let consumed, let trailers): // drop `consumed`; what follows is the next request
///         }
///     }
package struct ChunkedDecoder: Sendable {
    package enum Step: Sendable, Equatable {
        /// The buffer holds no content. All its `consumed` bytes were framing.
        case needMore(consumed: Int)
        /// After `skip` bytes of framing, the buffer holds `count` bytes of content (at least 1).
        case data(skip: Int, count: Int)
        /// The body ended `consumed` bytes into the buffer.
        case end(consumed: Int, trailers: HTTPFields)
    }

    /// Why a body is refused.
    ///
    /// The response is 400, and the connection cannot be used any more.
    package struct Failure: Error, Equatable, Sendable {
        package let reason: String
    }

    private enum State: Sendable {
        case sizeStart, size, `extension`, sizeLineFeed, data, dataReturn, dataLineFeed
        case trailerStart, trailer, trailerLineFeed, lastLineFeed, finished
    }

    /// Content bytes before the next framing; more than 0 only between `next` and the last `tookData`.
    package private(set) var remainingInChunk: Int64 = 0

    private var state = State.sizeStart
    private var size: Int64 = 0
    private var digits = 0
    private var extensionBytesOfLine = 0
    private var extensionBytes = 0
    private var trailerBytes: [UInt8] = []
    private var trailerLineStart = 0
    private var trailerBytesSeen = 0
    private var trailerFieldsSeen = 0
    private var trailers: [HTTPFields.Entry] = []

    /// Hexadecimal digits of a chunk size.
    private static let maximumDigits = 16
    private static let maximumExtensionOfLine = 4096
    private static let maximumExtensions = 16384
    private static let maximumTrailerBytes = 8192
    private static let maximumTrailerFields = 64

    package init() {}

    /// Decodes the beginning of `buffer`.
    ///
    /// - Parameter buffer: All bytes that were received and neither consumed nor taken; can be empty.
    /// - Returns: What the caller must do with these bytes.
    /// - Throws: `Failure`; the rest of the connection's bytes cannot be interpreted.
    package mutating func next(_ buffer: Span<UInt8>) throws(Failure) -> Step {
        var index = 0
        while state != .finished {
            if state == .data {
                let available = Int(min(remainingInChunk, Int64(buffer.count - index)))
                return available > 0 ? .data(skip: index, count: available) : .needMore(consumed: index)
            }
            guard index < buffer.count else { return .needMore(consumed: index) }
            try take(buffer[index])
            index += 1
        }
        return .end(consumed: index, trailers: HTTPFields(parsed: trailerBytes, entries: trailers))
    }

    /// Reports that the caller has taken `count` bytes of content.
    ///
    /// - Precondition: `count` is at most `remainingInChunk`.
    package mutating func tookData(_ count: Int) {
        precondition(count >= 0 && Int64(count) <= remainingInChunk, "the caller took more content than the chunk has")
        guard count > 0 else { return }
        remainingInChunk -= Int64(count)
        if remainingInChunk == 0 { state = .dataReturn }
    }

    private mutating func take(_ byte: UInt8) throws(Failure) {
        switch state {
        case .sizeStart, .size: try takeSize(byte)
        case .extension: try takeExtension(byte)
        case .sizeLineFeed: try endSizeLine(byte)
        case .dataReturn: state = try expect(13, byte, "chunk data longer than its size", then: .dataLineFeed)
        case .dataLineFeed: state = try expect(10, byte, "CR without LF after chunk data", then: .sizeStart)
        case .trailerStart, .trailer: try takeTrailer(byte)
        case .trailerLineFeed: try endTrailerLine(byte)
        case .lastLineFeed: state = try expect(10, byte, "CR without LF after the last chunk", then: .finished)
        case .data, .finished: break
        }
    }

    private func expect(_ wanted: UInt8, _ byte: UInt8, _ reason: String, then: State) throws(Failure) -> State {
        guard byte == wanted else { throw Failure(reason: reason) }
        return then
    }

    // MARK: Size line

    private mutating func takeSize(_ byte: UInt8) throws(Failure) {
        if let digit = Hexadecimal.value(of: byte) {
            digits += 1
            guard digits <= Self.maximumDigits, size <= Int64.max >> 4 else {
                throw Failure(reason: "chunk size too large")  // RFC 9112 §7.1: guard against overflow.
            }
            size = size << 4 | Int64(digit)
            state = .size
            return
        }
        guard state == .size else { throw Failure(reason: "chunk size missing") }
        switch byte {
        case 13: state = .sizeLineFeed
        case UInt8(ascii: ";"):
            state = .extension
            try countExtension()
        // RFC 9112 §7.1.1 lets recipients tolerate white space here. No client sends it, and others may parse
        // it differently.
        default: throw Failure(reason: "chunk size is not a hexadecimal number")
        }
    }

    private mutating func takeExtension(_ byte: UInt8) throws(Failure) {
        if byte == 13 {
            state = .sizeLineFeed
            return
        }
        guard HTTPCharacters.isFieldValue(byte) else {
            throw Failure(
                reason: byte == 10 ? "LF without CR in a chunk size line" : "control character in a chunk extension"
            )
        }
        try countExtension()
    }

    /// RFC 9112 §7.1.1: a server ought to limit the total length of chunk extensions.
    private mutating func countExtension() throws(Failure) {
        extensionBytesOfLine += 1
        extensionBytes += 1
        guard extensionBytesOfLine <= Self.maximumExtensionOfLine, extensionBytes <= Self.maximumExtensions else {
            throw Failure(reason: "too many bytes of chunk extensions")
        }
    }

    private mutating func endSizeLine(_ byte: UInt8) throws(Failure) {
        _ = try expect(10, byte, "CR without LF in a chunk size line", then: .data)
        remainingInChunk = size
        state = size == 0 ? .trailerStart : .data
        size = 0
        digits = 0
        extensionBytesOfLine = 0
    }

    // MARK: Trailer section (RFC 9112 §7.1.2)

    private mutating func takeTrailer(_ byte: UInt8) throws(Failure) {
        if byte == 13 {
            state = state == .trailerStart ? .lastLineFeed : .trailerLineFeed
            return
        }
        guard HTTPCharacters.isFieldValue(byte) else {
            throw Failure(reason: byte == 10 ? "LF without CR in the trailers" : "control character in the trailers")
        }
        trailerBytesSeen += 1
        guard trailerBytesSeen <= Self.maximumTrailerBytes else { throw Failure(reason: "trailers too large") }
        trailerBytes.append(byte)
        state = .trailer
    }

    private mutating func endTrailerLine(_ byte: UInt8) throws(Failure) {
        state = try expect(10, byte, "CR without LF in the trailers", then: .trailerStart)
        trailerFieldsSeen += 1
        guard trailerFieldsSeen <= Self.maximumTrailerFields else { throw Failure(reason: "too many trailers") }
        let entry: HTTPFields.Entry
        do throws(FieldLine.Failure) {
            entry = try FieldLine.parse(trailerBytes.span, trailerLineStart..<trailerBytes.count, base: 0)
        } catch {
            throw Failure(reason: error.reason + " (trailers)")
        }
        let name = trailerBytes[trailerLineStart..<trailerLineStart + Int(entry.nameLength)].map(HTTPCharacters.lower)
        if TrailerRules.forbidden.contains(String(decoding: name, as: UTF8.self)) {
            trailerBytes.removeSubrange(trailerLineStart...)
        } else {
            trailers.append(entry)
        }
        trailerLineStart = trailerBytes.count
    }
}

/// Fields that are meaningless or harmful after the content (RFC 9110 §6.5.1); they are dropped (§6.5.2).
enum TrailerRules {
    /// In lower case.
    static let forbidden: Set<String> = [
        // Framing and routing.
        "transfer-encoding", "content-length", "trailer", "te", "connection", "keep-alive", "proxy-connection",
        "upgrade", "host", "forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "via",
        "x-http-method-override",
        // Request modifiers and conditions.
        "cache-control", "expect", "max-forwards", "pragma", "range", "if-match", "if-none-match",
        "if-modified-since", "if-unmodified-since", "if-range", "prefer",
        // Authentication.
        "authorization", "proxy-authorization", "www-authenticate", "proxy-authenticate", "cookie", "set-cookie",
        // Response control.
        "age", "expires", "date", "location", "retry-after", "vary", "warning",
        // Content format.
        "content-encoding", "content-type", "content-range", "content-disposition",
    ]
}
