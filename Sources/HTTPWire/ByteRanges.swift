internal import Bytes

/// The Range field of a request for bytes (RFC 9110 §14.1.2, §14.2).
package enum ByteRanges {
    package enum Selection: Equatable, Sendable {
        /// Respond 200 with the whole representation.
        case whole
        /// Respond 206 with these bytes: not empty, and within the representation.
        case single(Range<Int64>)
        /// Respond 416 with `Content-Range: bytes */size`.
        case unsatisfiable
    }

    /// Selects the part of a representation to send.
    ///
    /// A malformed field, another unit or more than one range selects everything, as RFC 9110 §14.2 allows.
    ///
    /// - Parameters:
    ///   - field: The value of Range; `nil` if it is absent.
    ///   - size: Size of the representation in bytes.
    ///   - clamps: Whether a range that ends beyond the representation is shortened; otherwise it is ignored.
    /// - Returns: The response to send.
    package static func select(_ field: String?, size: Int64, clamps: Bool = true) -> Selection {
        guard let field, let equals = field.firstIndex(of: "="), field[..<equals].lowercasedASCII() == "bytes" else {
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

    /// The value of Content-Range for a 206 response (RFC 9110 §14.4).
    package static func contentRange(_ range: Range<Int64>, size: Int64) -> String {
        "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(size)"
    }

    /// The value of Content-Range for a 416 response.
    package static func unsatisfiedContentRange(size: Int64) -> String { "bytes */\(size)" }

    /// 1*DIGIT; numbers that do not fit into `Int64` become its maximum.
    private static func number(_ text: Substring) -> Int64? {
        guard !text.isEmpty, text.utf8.allSatisfy(HTTPCharacters.isDigit) else { return nil }
        return Int64(text) ?? .max
    }
}
