/// Text that others chose, of which comparisons take little time.
///
/// `==`, hashes and `hasPrefix` of a `String` put the combining marks of a character in order, in time by the square of
/// their number: 60 KB of marks took six seconds. So text from a request has few of them in a row, wherever it is
/// decoded.
@usableFromInline
package enum ClientText {
    /// Combining marks in a row, at most; text that is safe for streams has 30 (Unicode Standard Annex #15 §13).
    package static let maximumMarks = 64
    /// As in "is not …".
    package static let requirement = "UTF-8 with at most \(maximumMarks) combining marks in a row"

    @usableFromInline
    package static func isAllowed(_ text: String) -> Bool {
        if text.utf8.allSatisfy({ $0 < 0x80 }) { return true }
        var marks = 0
        for scalar in text.unicodeScalars {
            // None below has another class.
            marks = scalar.value < 0x300 || scalar.properties.canonicalCombiningClass == .notReordered ? 0 : marks + 1
            if marks > maximumMarks { return false }
        }
        return true
    }
}

extension String {
    /// Text that others chose; `nil` if it is not UTF-8, or has more combining marks in a row than `ClientText` allows.
    @inlinable
    package init?(clientText bytes: some Sequence<UInt8>) {
        guard let text = String(validating: bytes, as: UTF8.self), ClientText.isAllowed(text) else { return nil }
        self = text
    }
}
