internal import Bytes

/// Parses the heads of HTTP/1.0 and HTTP/1.1 requests (RFC 9112) while they arrive.
///
/// The parser keeps only offsets, so each call must pass the same bytes again with more after them; bytes that were
/// examined once are not examined again. Input that the grammar does not allow, or that can be parsed in two ways, is
/// refused. The result does not depend on how the bytes are split. After a head the parser is ready for the next one;
/// after a failure it must not be used again.
package struct RequestHeadParser: Sendable {
    private let limits: HeadLimits
    private var progress = Progress()

    private struct Progress: Sendable {
        /// Index of the first byte of the current line.
        var lineStart = 0
        /// Index of the first byte that was not examined yet.
        var scanned = 0
        /// Empty lines before the request line.
        var emptyLines = 0
        var line: RequestLine?
        /// Index of the first byte of the first field line.
        var fieldsStart = 0
        var entries: [HTTPFields.Entry] = []
        var semantics = HeadSemantics()
    }

    package init(limits: HeadLimits = HeadLimits()) {
        self.limits = limits
    }

    /// Searches for a complete head at the beginning of `buffer`.
    ///
    /// - Parameter buffer: All bytes that were received and not consumed.
    /// - Returns: The head, or `nil` if more bytes are needed.
    /// - Throws: `HeadFailure` with the status of the response, as early as possible.
    package mutating func parse(_ buffer: Span<UInt8>) throws(HeadFailure) -> ParsedHead? {
        while let end = try findLineEnd(buffer) {
            let range = progress.lineStart..<end
            progress.lineStart = progress.scanned
            if progress.line == nil {
                try takeFirstLine(buffer, range)
            } else if range.isEmpty {
                return try finish(buffer, end: end)
            } else {
                try takeField(buffer, range)
            }
        }
        return nil
    }

    /// Whether part of a head has arrived, so that a connection that ends now ends in the middle of a request.
    package var hasBegun: Bool { progress.line != nil || progress.scanned > progress.lineStart }

    // MARK: Lines

    /// The index of the CR that ends the current line; `scanned` is then after its LF.
    private mutating func findLineEnd(_ buffer: Span<UInt8>) throws(HeadFailure) -> Int? {
        let limit = lineLimit
        let bound = min(buffer.count, limit)
        var index = progress.scanned
        while index < bound {
            if bound - index >= 8, !WordScan.hasControl(buffer.word(at: index)) {
                index += 8
                continue
            }
            let byte = buffer[index]
            if HTTPCharacters.isFieldValue(byte) {
                index += 1
                continue
            }
            // RFC 9112 §2.2: a recipient may treat a bare LF as a line end but must not treat a bare CR as one. Both
            // are refused because intermediaries may see different lines. RFC 9110 §5.5: control characters.
            guard byte == 13 else {
                throw HeadFailure(400, byte == 10 ? "LF without CR" : "control character in the head")
            }
            guard index + 1 < bound else { break }
            guard buffer[index + 1] == 10 else { throw HeadFailure(400, "CR without LF") }
            progress.scanned = index + 2
            return index
        }
        progress.scanned = index
        guard buffer.count < limit else { throw tooLarge }
        return nil
    }

    /// Index before which the current line must end, including CRLF.
    private var lineLimit: Int {
        // Before the request line there are only empty lines, so the head begins with this line.
        if progress.line == nil {
            return progress.lineStart + min(limits.maximumRequestLine + 2, limits.maximumBytes)
        }
        return progress.fieldsStart - requestLineLength + limits.maximumBytes
    }

    private var requestLineLength: Int { progress.line?.length ?? 0 }

    private var tooLarge: HeadFailure {
        progress.line == nil && limits.maximumRequestLine + 2 <= limits.maximumBytes
            ? HeadFailure(414, "request line longer than \(limits.maximumRequestLine) bytes")  // RFC 9112 §3
            : HeadFailure(431, "head larger than \(limits.maximumBytes) bytes")  // RFC 6585 §5
    }

    private mutating func takeFirstLine(_ buffer: Span<UInt8>, _ range: Range<Int>) throws(HeadFailure) {
        if range.isEmpty {
            // RFC 9112 §2.2: at least one empty line before the request line should be ignored.
            progress.emptyLines += 1
            guard progress.emptyLines <= 2 else { throw HeadFailure(400, "empty lines instead of a request line") }
            return
        }
        progress.line = try RequestLine(buffer, range)
        progress.fieldsStart = progress.scanned
        progress.entries.reserveCapacity(16)
    }

    private mutating func takeField(_ buffer: Span<UInt8>, _ range: Range<Int>) throws(HeadFailure) {
        guard progress.entries.count < limits.maximumFields else {
            throw HeadFailure(431, "more than \(limits.maximumFields) fields")
        }
        let base = progress.fieldsStart
        let entry: HTTPFields.Entry
        do throws(FieldLine.Failure) {
            entry = try FieldLine.parse(buffer, range, base: base)
        } catch {
            throw HeadFailure(400, error.reason)
        }
        progress.entries.append(entry)
        let nameStart = base + Int(entry.nameStart)
        let valueStart = base + Int(entry.valueStart)
        try progress.semantics.take(
            buffer,
            name: nameStart..<nameStart + Int(entry.nameLength),
            value: valueStart..<valueStart + Int(entry.valueLength)
        )
    }

    private mutating func finish(_ buffer: Span<UInt8>, end: Int) throws(HeadFailure) -> ParsedHead? {
        guard let line = progress.line else { return nil }
        let meaning = try progress.semantics.conclude(
            version: line.version,
            allowsBoth: limits.allowsLengthOfChunked,
            isLenient: limits.lenientPaths.contains(where: line.target.rawPath.hasPrefix)
        )
        let parsed = ParsedHead(
            head: RequestHead(
                method: line.method,
                target: line.target,
                version: line.version,
                fields: HTTPFields(parsed: buffer.copy(progress.fieldsStart..<end), entries: progress.entries)
            ),
            framing: meaning.framing,
            consumed: progress.scanned,
            keepsAlive: meaning.keepsAlive,
            expectsContinue: meaning.expectsContinue
        )
        progress = Progress()
        return parsed
    }
}
