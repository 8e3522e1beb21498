internal import Bytes

/// `Content-Range` of a PUT to an upload link, as the clients of Vimeo's Old Upload write it.
///
/// It is not the field of RFC 9110 §14.4: `bytes: 0-N/N` has a colon, an end that counts bytes (the total instead of the
/// last position), and on Apple's platforms numbers such as `3000000.0`. Only the first position and the total mean
/// something; the end differs between clients.
enum VimeoContentRange: Equatable {
    /// The client asks how many bytes are there.
    ///
    /// - `total`: As announced; `nil` for `*`.
    case probe(total: Int64?)
    case part(Part)

    /// Where content belongs.
    struct Part: Equatable {
        /// Of its first byte.
        var start: Int64
        /// Of its last byte, or one more.
        var end: Int64
        /// Bytes of the whole file; `nil` for `*`.
        var total: Int64?

        /// Whether `end` is a position, as in RFC 9110, and not a count: then `Range` in the answer to a probe is read
        /// so, too.
        var isInclusive: Bool { total.map { end == $0 - 1 && end >= start } ?? false }

        /// Whether its client cuts the file into pieces, and this is not the last.
        ///
        /// It waits for a 308 then (websemantics with a chunk size). Others announce the end of the file and send as much
        /// as they have.
        ///
        /// - Parameter length: Bytes of the content; `nil` if unknown.
        /// - Returns: `false` if that cannot be told.
        func isPiece(_ length: Int64?) -> Bool {
            guard let length, let total else { return false }
            // None of these is negative, so no difference is too large for a number.
            return length > 0 && length - 1 == end - start && end < total - 1
        }
    }

    /// - Returns: `nil` for text that none of the clients sends.
    init?(_ text: String) {
        var rest = text.utf8[...].trimmed
        guard rest.count > 5, zip(rest, "bytes".utf8).allSatisfy({ $0 | 0x20 == $1 }) else { return nil }
        rest = rest.dropFirst(5)
        let hasColon = rest.first == UInt8(ascii: ":")
        if hasColon { rest = rest.dropFirst() }
        // RFC 9110 wants one space; after a colon it may be left out.
        guard hasColon || rest.first == UInt8(ascii: " ") || rest.first == UInt8(ascii: "=") else { return nil }
        if rest.first == UInt8(ascii: "=") { rest = rest.dropFirst() }
        rest = rest.trimmed
        let halves = rest.split(separator: UInt8(ascii: "/"), maxSplits: 2, omittingEmptySubsequences: false)
        guard halves.count == 2 else { return nil }
        var total: Int64?
        if !halves[1].trimmed.isStar {
            guard let number = Self.number(halves[1]) else { return nil }
            total = number
        }
        if halves[0].trimmed.isStar {
            self = .probe(total: total)
            return
        }
        let ends = halves[0].split(separator: UInt8(ascii: "-"), maxSplits: 2, omittingEmptySubsequences: false)
        guard ends.count == 2, let start = Self.number(ends[0]), let end = Self.number(ends[1]) else { return nil }
        // Of an empty rest, the end may be one less than the start.
        guard end >= start - 1, total.map({ start <= $0 && end <= $0 }) ?? true else { return nil }
        self = .part(Part(start: start, end: end, total: total))
    }

    /// Digits, of which a fraction of zeros may follow.
    private static func number(_ text: Substring.UTF8View) -> Int64? {
        let pieces = text.trimmed.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard (1...2).contains(pieces.count), !pieces[0].isEmpty else { return nil }
        if pieces.count == 2 {
            guard !pieces[1].isEmpty, pieces[1].allSatisfy({ $0 == UInt8(ascii: "0") }) else { return nil }
        }
        var number: Int64 = 0
        for digit in pieces[0] {
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(digit) else { return nil }
            let (tens, carried) = number.multipliedReportingOverflow(by: 10)
            let (sum, overflowed) = tens.addingReportingOverflow(Int64(digit - UInt8(ascii: "0")))
            if carried || overflowed { return nil }
            number = sum
        }
        return number
    }
}

extension Substring.UTF8View {
    fileprivate var trimmed: Substring.UTF8View {
        func isBlank(_ byte: UInt8) -> Bool { byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }
        var view = self.drop(while: isBlank)
        while let last = view.last, isBlank(last) { view = view.dropLast() }
        return view
    }

    fileprivate var isStar: Bool { count == 1 && first == UInt8(ascii: "*") }
}
