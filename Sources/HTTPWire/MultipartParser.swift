#if canImport(Glibc)
internal import Glibc
#endif

/// Parses multipart content (RFC 2046 §5.1, RFC 7578) while it arrives in pieces.
///
/// Appended bytes are returned as data of parts, mostly without copying. The parser holds at most the appended pieces
/// that were not taken yet and the head of one part. The result does not depend on how the bytes are split into pieces.
/// Lines must end with CRLF. After a failure the parser must not be used again.
package struct MultipartParser: Sendable {
    package enum Step: Sendable, Equatable {
        /// Everything was taken; append more.
        case needMore
        /// The head of a part; its data follow.
        case part(HTTPFields)
        /// Data of the current part.
        case data([UInt8])
        case endOfPart
        /// The last boundary; the caller must skip what follows (§5.1.1, epilogue).
        case end
    }

    package struct Failure: Error, Sendable, Equatable {
        /// What is wrong, for the developer of the client; contains no received text.
        package let reason: String
    }

    private enum Position {
        case preamble, afterFirstBoundary, beginOfPart, head, beginOfContent, content, afterBoundary, epilogue
    }

    private let limits: MultipartLimits
    /// CRLF, two hyphens and the boundary.
    private let delimiter: [UInt8]
    /// Bytes that were not taken yet begin at `start`.
    private var buffer: [UInt8] = [Self.cr, Self.lf]
    private var start = 0
    private var position = Position.preamble
    private var preambleCount = 0
    private var partCount = 0
    /// Bytes of the current head, counted from `start`, that are known not to contain its end.
    private var scanned = 0

    /// - Parameters:
    ///   - boundary: From the Content-Type of the whole content.
    ///   - limits: For parts and their heads.
    package init(boundary: MultipartBoundary, limits: MultipartLimits = MultipartLimits()) {
        self.limits = limits
        // If the first boundary begins the content, no CRLF precedes it: `buffer` starts with one.
        delimiter = Array("\r\n--".utf8) + Array(boundary.text.utf8)
    }

    /// Appends the next bytes.
    package mutating func append(_ bytes: [UInt8]) {
        if start == buffer.count {
            buffer = bytes
        } else {
            buffer.removeFirst(start)
            buffer += bytes
        }
        start = 0
    }

    /// Returns the next step.
    ///
    /// - Parameter maximum: Maximum size of one `.data`; at least 1.
    /// - Returns: The next step; `.end` again after the last one.
    /// - Throws: `Failure`, as early as possible.
    package mutating func next(maximum: Int = .max) throws(Failure) -> Step {
        while true {
            switch position {
            case .preamble:
                let count = bytesBeforeDelimiter()
                preambleCount += count
                guard preambleCount <= limits.maximumPreamble else {
                    throw Failure(reason: "no line begins with the boundary of the Content-Type")
                }
                start += count
                guard takeDelimiter() else { return .needMore }
                position = .afterFirstBoundary
            case .afterFirstBoundary:
                guard let isLast = try takeRestOfBoundaryLine() else { return .needMore }
                position = isLast ? .epilogue : .beginOfPart
            case .afterBoundary:
                // Before the part ends: if this turns out not to be a boundary, the part must not count as complete.
                guard let isLast = try takeRestOfBoundaryLine() else { return .needMore }
                position = isLast ? .epilogue : .beginOfPart
                return .endOfPart
            case .beginOfPart:
                partCount += 1
                guard partCount <= limits.maximumParts else {
                    throw Failure(reason: "more than \(limits.maximumParts) parts")
                }
                scanned = 0
                position = .head
            case .head:
                guard let fields = try takeHead() else { return .needMore }
                position = .beginOfContent
                return .part(fields)
            case .beginOfContent:
                // §5.1.1: in a part without content, the CRLF before the boundary can be the one that ends its head.
                let boundary = delimiter.dropFirst(2)
                let count = min(boundary.count, buffer.count - start)
                guard buffer[start..<start + count].elementsEqual(boundary.prefix(count)) else {
                    position = .content
                    continue
                }
                guard count == boundary.count else { return .needMore }
                start += count
                position = .afterBoundary
            case .content:
                let count = min(bytesBeforeDelimiter(), maximum)
                if count > 0 { return .data(take(count)) }
                guard takeDelimiter() else { return .needMore }
                position = .afterBoundary
            case .epilogue:
                start = buffer.count
                return .end
            }
        }
    }

    // MARK: Boundaries

    /// The number of bytes from `start` that cannot belong to a delimiter.
    ///
    /// Searches from one CR to the next with `memchr`. Only the first byte of a delimiter is a CR, so no byte is
    /// examined twice.
    private func bytesBeforeDelimiter() -> Int {
        buffer.withUnsafeBytes { bytes in
            guard let base = bytes.baseAddress else { return 0 }
            var index = start
            while index < bytes.count, let found = memchr(base + index, Int32(Self.cr), bytes.count - index) {
                let candidate = base.distance(to: UnsafeRawPointer(found))
                var matched = 1
                while matched < delimiter.count, candidate + matched < bytes.count,
                    bytes[candidate + matched] == delimiter[matched]
                {
                    matched += 1
                }
                if matched == delimiter.count || candidate + matched == bytes.count { return candidate - start }
                index = candidate + matched
            }
            return bytes.count - start
        }
    }

    /// Takes the delimiter if it is complete at `start`.
    private mutating func takeDelimiter() -> Bool {
        guard buffer.count - start >= delimiter.count,
            buffer[start..<start + delimiter.count].elementsEqual(delimiter)
        else { return false }
        start += delimiter.count
        return true
    }

    /// Takes the rest of a boundary's line: two hyphens after the last boundary, otherwise white space and CRLF.
    ///
    /// - Returns: Whether it is the last boundary; `nil` if more bytes are needed.
    private mutating func takeRestOfBoundaryLine() throws(Failure) -> Bool? {
        guard start < buffer.count else { return nil }
        if buffer[start] == UInt8(ascii: "-") {
            guard start + 1 < buffer.count else { return nil }
            guard buffer[start + 1] == UInt8(ascii: "-") else { throw Self.badBoundaryLine }
            start += 2
            return true
        }
        var index = start
        while index < buffer.count, HTTPCharacters.isWhitespace(buffer[index]) { index += 1 }
        guard index - start <= Self.maximumPadding else { throw Self.badBoundaryLine }
        guard index < buffer.count else { return nil }
        guard buffer[index] == Self.cr else { throw Self.badBoundaryLine }
        guard index + 1 < buffer.count else { return nil }
        guard buffer[index + 1] == Self.lf else { throw Self.badBoundaryLine }
        start = index + 2
        return false
    }

    private static let maximumPadding = 256
    private static let badBoundaryLine = Failure(
        reason: "a boundary is not followed by CRLF, or the content of a part contains it"
    )

    // MARK: Heads

    /// Takes the fields of a part and the empty line that ends them.
    ///
    /// - Returns: `nil` if more bytes are needed.
    private mutating func takeHead() throws(Failure) -> HTTPFields? {
        var lineStart = start + scanned
        while let end = try endOfLine(from: lineStart) {
            if end == lineStart {
                let fields = try fields(start..<end)
                start = end + 2
                return fields
            }
            lineStart = end + 2
            scanned = lineStart - start
        }
        guard buffer.count - start <= limits.maximumHead else { throw tooLongHead }
        return nil
    }

    /// The index of the CR that ends the line.
    private func endOfLine(from lineStart: Int) throws(Failure) -> Int? {
        var index = lineStart
        while index < buffer.count, HTTPCharacters.isFieldValue(buffer[index]) { index += 1 }
        guard index - start <= limits.maximumHead else { throw tooLongHead }
        guard index < buffer.count else { return nil }
        guard buffer[index] == Self.cr else {
            throw Failure(reason: "a control character, or a line that does not end with CRLF, in the head of a part")
        }
        guard index + 1 < buffer.count else { return nil }
        guard buffer[index + 1] == Self.lf else { throw Failure(reason: "a CR without LF in the head of a part") }
        return index
    }

    private func fields(_ range: Range<Int>) throws(Failure) -> HTTPFields {
        let head = Array(buffer[range])
        var entries: [HTTPFields.Entry] = []
        var lineStart = 0
        while lineStart < head.count {
            let lineEnd = head[lineStart...].firstIndex(of: Self.cr) ?? head.count
            guard entries.count < limits.maximumFields else {
                throw Failure(reason: "more than \(limits.maximumFields) fields in the head of a part")
            }
            do throws(FieldLine.Failure) {
                entries.append(try FieldLine.parse(head.span, lineStart..<lineEnd, base: 0))
            } catch {
                throw Failure(reason: "the head of a part has a " + error.reason)
            }
            lineStart = lineEnd + 2
        }
        return HTTPFields(parsed: head, entries: entries)
    }

    private var tooLongHead: Failure {
        Failure(reason: "the head of a part is longer than \(limits.maximumHead) bytes")
    }

    private mutating func take(_ count: Int) -> [UInt8] {
        let end = start + count
        if start == 0, end == buffer.count {
            defer { buffer = [] }
            return buffer
        }
        defer { start = end }
        return Array(buffer[start..<end])
    }

    private static let cr: UInt8 = 13
    private static let lf: UInt8 = 10
}

/// The text that separates the parts of multipart content (RFC 2046 §5.1.1).
package struct MultipartBoundary: Sendable, Equatable {
    let text: String

    /// The boundary of a media type.
    ///
    /// - Returns: `nil` unless it has exactly one boundary of 1 to 70 `bchars` that does not end with a space.
    package init?(of type: MediaType) {
        let reported = type.parameters.filter { $0.name == "boundary" }
        guard reported.count == 1, let text = reported.first?.value, (1...70).contains(text.utf8.count),
            text.utf8.allSatisfy(Self.isAllowed), text.utf8.last != UInt8(ascii: " ")
        else { return nil }
        self.text = text
    }

    private static func isAllowed(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "a")...UInt8(ascii: "z"):
            true
        default: "'()+_,-./:=? ".utf8.contains(byte)
        }
    }
}

/// Limits of everything except content.
package struct MultipartLimits: Sendable, Equatable {
    /// Bytes before the first boundary.
    package var maximumPreamble: Int
    package var maximumParts: Int
    /// Bytes of one part's head.
    package var maximumHead: Int
    /// Fields in one part's head.
    package var maximumFields: Int

    package init(
        maximumPreamble: Int = 4096,
        maximumParts: Int = 1000,
        maximumHead: Int = 8192,
        maximumFields: Int = 16
    ) {
        self.maximumPreamble = maximumPreamble
        self.maximumParts = maximumParts
        self.maximumHead = maximumHead
        self.maximumFields = maximumFields
    }
}
