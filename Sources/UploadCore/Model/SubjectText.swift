/// The rule for names of app users, wherever one comes in.
package enum SubjectText {
    package static let maximumByteCount = 256

    /// What to say of a name that breaks it.
    package static let rule = "must have 1 to \(maximumByteCount) bytes of UTF-8 and no control characters"

    /// Whether `text` may be the name of an app user: not empty, not too long, and nothing that could end a line of a log or a header.
    package static func isValid(_ text: String) -> Bool {
        (1...maximumByteCount).contains(text.utf8.count)
            && !text.unicodeScalars.contains { $0.properties.generalCategory == .control }
    }
}
