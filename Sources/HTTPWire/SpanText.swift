internal import Bytes

extension Span<UInt8> {
    /// A copy of the bytes in `range` as text; invalid UTF-8 is replaced.
    func text(_ range: Range<Int>) -> String {
        extracting(range).withUnsafeBufferPointer { String(decoding: $0, as: UTF8.self) }
    }

    /// Whether no byte in `range` belongs to another character.
    func isASCII(_ range: Range<Int>) -> Bool {
        var index = range.lowerBound
        while range.upperBound - index >= 8 {
            guard WordScan.isASCII(word(at: index)) else { return false }
            index += 8
        }
        for index in index..<range.upperBound where self[index] >= 0x80 { return false }
        return true
    }

    /// Eight bytes from `index` on, all of which must be there.
    func word(at index: Int) -> UInt64 { bytes.unsafeLoadUnaligned(fromByteOffset: index, as: UInt64.self) }

    /// A copy of the bytes in `range`.
    func copy(_ range: Range<Int>) -> [UInt8] {
        extracting(range).withUnsafeBufferPointer { [UInt8]($0) }
    }

    /// Whether the bytes in `range` equal `lowercase`, ignoring ASCII case.
    func equals(_ range: Range<Int>, ignoringCase lowercase: StaticString) -> Bool {
        guard range.count == lowercase.utf8CodeUnitCount else { return false }
        return lowercase.withUTF8Buffer { wanted in
            var position = range.lowerBound
            for byte in wanted {
                if HTTPCharacters.lower(self[position]) != byte { return false }
                position += 1
            }
            return true
        }
    }

    /// `range` without spaces and tabs at both ends (OWS of RFC 9110 §5.6.3).
    func trimmed(_ range: Range<Int>) -> Range<Int> {
        var lower = range.lowerBound
        var upper = range.upperBound
        while lower < upper, HTTPCharacters.isWhitespace(self[lower]) { lower += 1 }
        while lower < upper, HTTPCharacters.isWhitespace(self[upper - 1]) { upper -= 1 }
        return lower..<upper
    }

    /// Calls `body` with the range of each element of the comma-separated list in `range`: trimmed, including empty
    /// ones.
    func forEachListElement<Failure: Error>(
        in range: Range<Int>,
        _ body: (Range<Int>) throws(Failure) -> Void
    ) throws(Failure) {
        var start = range.lowerBound
        for index in range where self[index] == UInt8(ascii: ",") {
            try body(trimmed(start..<index))
            start = index + 1
        }
        try body(trimmed(start..<range.upperBound))
    }
}

extension HTTPCharacters {
    /// Space or tab (RFC 9110 §5.6.3).
    static func isWhitespace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }

    static func isDigit(_ byte: UInt8) -> Bool { byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9") }
}
