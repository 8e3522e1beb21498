internal import Bytes

/// A prefix of object keys to which access is limited; never empty, because that would be the whole bucket.
package struct KeyPrefix: Sendable, Equatable {
    /// Maximum length of a key in bytes (Amazon S3 User Guide, "Naming Amazon S3 objects").
    package static let maximumByteCount = 1024

    package let text: String

    /// - Returns: `nil` if the text is empty or longer than a key may be.
    package init?(_ text: String) {
        guard (1...Self.maximumByteCount).contains(text.utf8.count) else { return nil }
        self.text = text
    }

    /// The prefix for an app user: the percent-encoded name (RFC 3986 §2.1) and a slash, so that no user's keys are
    /// among those of another.
    ///
    /// - Returns: `nil` for an invalid name.
    package init?(subject: String) {
        guard SubjectText.isValid(subject) else { return nil }
        // Clients rewrite paths with dot segments, so dots are encoded in names that consist of them.
        let isDots = subject == "." || subject == ".."
        var text = ""
        for byte in subject.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "~"),
                UInt8(ascii: ".") where !isDots:
                text.unicodeScalars.append(Unicode.Scalar(byte))
            default: text += "%" + Hexadecimal.encode([byte]).uppercasedASCII()
            }
        }
        self.init(text + "/")
    }
}
