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

/// The name of an app user by its bytes.
///
/// A `String` also equals what is canonically equivalent: "é" as one character and as "e" with an accent are two users.
package struct SubjectName: Hashable, Sendable {
    private let text: String

    package init(_ text: String) { self.text = text }

    package static func == (one: SubjectName, other: SubjectName) -> Bool {
        one.text.utf8.elementsEqual(other.text.utf8)
    }

    package func hash(into hasher: inout Hasher) {
        for byte in text.utf8 { hasher.combine(byte) }
    }
}

extension String {
    /// Whether both name the same app user.
    package func isSameSubject(as other: String) -> Bool { SubjectName(self) == SubjectName(other) }
}

extension String? {
    /// Whether both name the same app user, or no particular one.
    package func isSameSubject(as other: String?) -> Bool { map(SubjectName.init) == other.map(SubjectName.init) }
}
