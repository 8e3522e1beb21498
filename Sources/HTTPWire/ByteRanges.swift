/// The Range field of a request for bytes (RFC 9110 §14.1.2, §14.2).
package enum ByteRanges {
    package enum Selection: Equatable, Sendable {
        /// Answer 200 with everything.
        case whole
        /// Answer 206 with these bytes; not empty and inside the representation.
        case single(Range<Int64>)
        /// Answer 416 with `Content-Range: bytes */size`.
        case unsatisfiable
    }

    /// What to send of a representation of `size` bytes.
    ///
    /// A malformed field, another unit and more than one range are answered with everything, as RFC 9110 §14.2 allows.
    ///
    /// - Parameters:
    ///   - field: The value of Range, `nil` if there is none.
    ///   - size: Bytes of the representation.
    ///   - clamps: Whether what a range has beyond the representation is passed over; else the whole range is.
    /// - Returns: What to answer with.
    package static func select(_ field: String?, size: Int64, clamps: Bool = true) -> Selection {
        guard let field, let equals = field.firstIndex(of: "="), field[..<equals].lowercased() == "bytes" else {
            return .whole
        }
        let ranges = field[field.index(after: equals)...]
        guard !ranges.contains(","), let dash = ranges.firstIndex(of: "-") else { return .whole }
        let first = ranges[..<dash]
        let last = ranges[ranges.index(after: dash)...]
        if first.isEmpty {
            guard let length = number(last) else { return .whole }
            guard length > 0 else { return .unsatisfiable }
            guard clamps || length <= size else { return .whole }
            return size == 0 ? .whole : .single(max(0, size - length)..<size)
        }
        guard let start = number(first), let end = last.isEmpty ? Int64.max : number(last), start <= end else {
            return .whole
        }
        guard start < size else { return .unsatisfiable }
        guard clamps || last.isEmpty || end < size else { return .whole }
        return .single(start..<(end < size ? end + 1 : size))
    }

    /// The value of Content-Range for a 206 answer (RFC 9110 §14.4).
    package static func contentRange(_ range: Range<Int64>, size: Int64) -> String {
        "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(size)"
    }

    /// The value of Content-Range for a 416 answer.
    package static func unsatisfiedContentRange(size: Int64) -> String { "bytes */\(size)" }

    /// 1*DIGIT; larger numbers than `Int64` holds are cut to its maximum.
    private static func number(_ text: Substring) -> Int64? {
        guard !text.isEmpty, text.utf8.allSatisfy(HTTPCharacters.isDigit) else { return nil }
        return Int64(text) ?? .max
    }
}
