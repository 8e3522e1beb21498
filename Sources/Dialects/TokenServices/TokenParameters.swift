internal import Bytes
internal import Digests

/// Consumes the parameters of a request one by one; the remaining ones are unknown.
struct TokenParameters {
    private var values = ExactNames<String>()
    /// The first repeated name.
    let repeated: String?

    init(_ parameters: [(name: String, value: String)]) {
        var repeated: String?
        for (name, value) in parameters where values.updateValue(value, forKey: name) != nil {
            repeated = repeated ?? name
        }
        self.repeated = repeated
    }

    mutating func take(_ name: String) -> String? { values.removeValue(forKey: name) }

    /// Drops the common parameters, including those of the signature.
    mutating func drop(_ isCommon: (String) -> Bool) {
        values = values.filter { !isCommon($0.key) }
    }

    /// The alphabetically first of the remaining parameters.
    var left: String? { values.keys.min() }
}

/// Syntax of names and numbers in token services.
enum TokenSyntax {
    /// Whether the length of `text` is in range, and all its characters are ASCII letters, digits or in `others`.
    static func isValid(_ text: String, counts: ClosedRange<Int>, others: String) -> Bool {
        counts.contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                isDigit(byte) || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20)
                    || others.utf8.contains(byte)
            }
    }

    static func isNumber(_ text: some StringProtocol) -> Bool { !text.isEmpty && text.utf8.allSatisfy(isDigit) }

    private static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }

    /// A number of seconds in a range; `nil` for anything else.
    static func seconds(_ text: String, in range: ClosedRange<Int>) -> Int? {
        guard isNumber(text), let seconds = Int(text), range.contains(seconds) else { return nil }
        return seconds
    }

    /// 16 characters derived from `text`.
    static func stamp(of text: String) -> String { Base32.encode(Digest.hash(text.utf8, .sha256).prefix(10)) }
}
