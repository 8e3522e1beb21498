/// The rule for names of app users, applied wherever one is accepted.
package enum SubjectText {
    package static let maximumByteCount = 256

    /// The message for invalid names.
    package static let rule = "must have 1 to \(maximumByteCount) bytes of UTF-8 and no control characters"

    /// Whether `text` is a valid name of an app user: not empty, not too long, and without characters that could end a
    /// line of a log or a header.
    package static func isValid(_ text: String) -> Bool {
        (1...maximumByteCount).contains(text.utf8.count)
            && !text.unicodeScalars.contains { $0.properties.generalCategory == .control }
    }
}
