internal import Bytes

/// One line of a header or trailer section (RFC 9112 §5).
enum FieldLine {
    /// Why a line is refused.
    struct Failure: Error {
        let reason: String
    }

    /// Finds the name and the value of a line.
    ///
    /// - Parameters:
    ///   - buffer: The bytes that contain the line.
    ///   - range: The line in `buffer` without its CRLF, free of control characters other than tab.
    ///   - base: Index in `buffer` that the entry's offsets are relative to.
    /// - Returns: The entry, with the value trimmed.
    /// - Throws: `Failure` with the reason.
    static func parse(
        _ buffer: Span<UInt8>,
        _ range: Range<Int>,
        base: Int
    ) throws(Failure) -> HTTPFields.Entry {
        var index = range.lowerBound
        while index < range.upperBound, HTTPCharacters.isToken(buffer[index]) { index += 1 }
        guard index < range.upperBound, buffer[index] == UInt8(ascii: ":"), index > range.lowerBound else {
            throw failure(buffer, range, at: index)
        }
        let value = buffer.trimmed(index + 1..<range.upperBound)
        guard buffer.isASCII(value) || ClientText.isAllowed(buffer.text(value)) else {
            throw Failure(reason: "more than \(ClientText.maximumMarks) combining marks in a row in a field")
        }
        return HTTPFields.Entry(
            nameStart: range.lowerBound - base,
            nameLength: index - range.lowerBound,
            valueStart: value.lowerBound - base,
            valueLength: value.count
        )
    }

    private static func failure(_ buffer: Span<UInt8>, _ range: Range<Int>, at index: Int) -> Failure {
        guard index < range.upperBound else { return Failure(reason: "field line without a colon") }
        let byte = buffer[index]
        if HTTPCharacters.isWhitespace(byte) {
            // RFC 9112 §5.2 (obsolete line folding), §2.2 (space before the first field), §5.1 (before the colon).
            return index == range.lowerBound
                ? Failure(reason: "field line that begins with white space")
                : Failure(reason: "white space in a field name or before its colon")
        }
        if byte == UInt8(ascii: ":") { return Failure(reason: "empty field name") }
        return Failure(reason: "character in a field name that is not allowed there")
    }
}
