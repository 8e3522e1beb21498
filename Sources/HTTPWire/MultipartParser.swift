#if canImport(Glibc)
internal import Glibc
#endif

/// Takes a multipart content apart (RFC 2046 §5.1, RFC 7578) while it arrives, piece by piece.
///
/// What is appended comes out again as data of parts, mostly without being copied; never more is held than the pieces that
/// were appended and not taken, and the head of one part. The outcome does not depend on how the bytes were cut. Lines end
/// with CRLF only. After a failure the parser must not be used again.
package struct MultipartParser: Sendable {
    package enum Step: Sendable, Equatable {
        /// All that came was taken; more has to be appended.
        case needMore
        /// The head of a part; its data follow.
        case part(HTTPFields)
        /// Data of the current part.
        case data([UInt8])
        case endOfPart
        /// The last boundary came; what follows it (§5.1.1, epilogue) is to be passed over.
        case end
    }

    package struct Failure: Error, Sendable, Equatable {
        /// What is wrong, for whoever wrote the client; holds nothing that was received.
        package let reason: String
    }

    private enum Position {
        case preamble, afterFirstBoundary, beginOfPart, head, beginOfContent, content, afterBoundary, epilogue
    }

    private let limits: MultipartLimits
    /// CRLF, two hyphens and the boundary.
    private let delimiter: [UInt8]
    /// What came and was not taken begins at `start`.
    private var buffer: [UInt8] = [Self.cr, Self.lf]
    private var start = 0
    private var position = Position.preamble
    private var preambleCount = 0
    private var partCount = 0
    /// Bytes of the current head that hold no end of it, counted from `start`.
    private var scanned = 0

    /// - Parameters:
    ///   - boundary: As the Content-Type of the whole tells it.
    ///   - limits: Of parts and their heads.
    package init(boundary: MultipartBoundary, limits: MultipartLimits = MultipartLimits()) {
        self.limits = limits
        // The first boundary may stand at the very beginning, where the CRLF before it is left out: it is in `buffer`.
        delimiter = Array("\r\n--".utf8) + Array(boundary.text.utf8)
    }

    /// Hands over bytes that follow those that were handed over before.
    package mutating func append(_ bytes: [UInt8]) {
        if start == buffer.count {
            buffer = bytes
        } else {
            buffer.removeFirst(start)
            buffer += bytes
        }
        start = 0
    }

    /// What the bytes that came say next.
    ///
    /// - Parameter maximum: Most bytes of one `.data`; at least 1.
    /// - Returns: The next step; `.end` again after the last one.
    /// - Throws: `Failure`, as soon as it is certain.
    package mutating func next(maximum: Int = .max) throws(Failure) -> Step {
        while true {
            switch position {
            case .preamble:
                let count = bytesBeforeDelimiter()
                preambleCount += count
                guard preambleCount <= limits.maximumPreamble else {
                    throw Failure(reason: "no boundary of the Content-Type stands at the beginning of a line")
                }
                start += count
                guard takeDelimiter() else { return .needMore }
                position = .afterFirstBoundary
            case .afterFirstBoundary:
                guard let isLast = try takeRestOfBoundaryLine() else { return .needMore }
                position = isLast ? .epilogue : .beginOfPart
            case .afterBoundary:
                // Before the part is over: of what is no boundary after all nobody may take it for complete.
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
                // §5.1.1: of a part without content the CRLF before the boundary may be the one that ends its head.
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

    /// How many bytes from `start` on certainly belong to no delimiter.
    ///
    /// From one CR to the next with `memchr`. A CR stands only at the beginning of a delimiter, so no byte is looked at twice.
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

    /// Takes the delimiter if all of it stands at `start`.
    private mutating func takeDelimiter() -> Bool {
        guard buffer.count - start >= delimiter.count,
            buffer[start..<start + delimiter.count].elementsEqual(delimiter)
        else { return false }
        start += delimiter.count
        return true
    }

    /// What follows a boundary: two hyphens after the last one, else white space and CRLF.
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
        reason: "a boundary is followed by something else than CRLF, or stands within the content of a part"
    )

    // MARK: Heads

    /// The fields of a part, with the empty line that ends them.
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

/// What separates the parts of a multipart content (RFC 2046 §5.1.1).
package struct MultipartBoundary: Sendable, Equatable {
    let text: String

    /// The boundary that a media type tells.
    ///
    /// - Returns: `nil` unless it tells exactly one of 1 to 70 characters of `bchars`, the last one no space.
    package init?(of type: MediaType) {
        let told = type.parameters.filter { $0.name == "boundary" }
        guard told.count == 1, let text = told.first?.value, (1...70).contains(text.utf8.count),
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

/// How much of everything but content a multipart content may have.
package struct MultipartLimits: Sendable, Equatable {
    /// Bytes before the first boundary.
    package var maximumPreamble: Int
    package var maximumParts: Int
    /// Bytes of the head of one part.
    package var maximumHead: Int
    /// Fields in the head of one part.
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
