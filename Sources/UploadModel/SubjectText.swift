package import Bytes

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

/// The name of an app user, compared by its bytes: "é" as one character and as "e" with an accent are two users.
package typealias SubjectName = ExactText

extension String {
    /// Whether both name the same app user.
    package func isSameSubject(as other: String) -> Bool { SubjectName(self) == SubjectName(other) }
}

extension String? {
    /// Whether both name the same app user, or no particular one.
    package func isSameSubject(as other: String?) -> Bool { map { SubjectName($0) } == other.map { SubjectName($0) } }
}
