internal import Bytes
internal import Digests

/// The parameters of a request, taken one after the other, so that what is left is what nobody understood.
struct TokenParameters {
    private var values: [String: String] = [:]
    /// The first name that is there twice.
    let repeated: String?

    init(_ parameters: [(name: String, value: String)]) {
        var repeated: String?
        for (name, value) in parameters where values.updateValue(value, forKey: name) != nil {
            repeated = repeated ?? name
        }
        self.repeated = repeated
    }

    mutating func take(_ name: String) -> String? { values.removeValue(forKey: name) }

    /// Forgets what is about the request itself and its signature.
    mutating func drop(_ isCommon: (String) -> Bool) {
        values = values.filter { !isCommon($0.key) }
    }

    /// The first in alphabetical order of those that are left.
    var left: String? { values.keys.min() }
}

/// How names and numbers of the token services are written.
enum TokenSyntax {
    /// Whether `text` has so many characters, all of them letters of ASCII, digits or others that are given.
    static func isValid(_ text: String, counts: ClosedRange<Int>, others: String) -> Bool {
        counts.contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                isDigit(byte) || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20)
                    || others.utf8.contains(byte)
            }
    }

    static func isNumber(_ text: some StringProtocol) -> Bool { !text.isEmpty && text.utf8.allSatisfy(isDigit) }

    private static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }

    /// A number of seconds in a range; `nil` for any other text.
    static func seconds(_ text: String, in range: ClosedRange<Int>) -> Int? {
        guard isNumber(text), let seconds = Int(text), range.contains(seconds) else { return nil }
        return seconds
    }

    /// 16 characters that follow from `text`.
    static func stamp(of text: String) -> String { Base32.encode(Digest.hash(text.utf8, .sha256).prefix(10)) }
}
