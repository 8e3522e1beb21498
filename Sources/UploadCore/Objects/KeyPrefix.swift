internal import Bytes

/// What the keys of objects begin with that somebody may use; it is never empty, which would be the whole bucket.
package struct KeyPrefix: Sendable, Equatable {
    /// Bytes of a key at most (Amazon S3 User Guide, "Naming Amazon S3 objects").
    package static let maximumByteCount = 1024

    package let text: String

    /// - Returns: `nil` for what is empty or longer than a key may be.
    package init?(_ text: String) {
        guard (1...Self.maximumByteCount).contains(text.utf8.count) else { return nil }
        self.text = text
    }

    /// That of the keys of an app user: the name, percent-encoded (RFC 3986 §2.1), and a slash, so that nobody's keys are among
    /// another one's.
    ///
    /// - Returns: `nil` for a name that breaks the rule of names.
    package init?(subject: String) {
        guard SubjectText.isValid(subject) else { return nil }
        // Of segments that are dots only clients make other paths.
        let isDots = subject == "." || subject == ".."
        var text = ""
        for byte in subject.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "~"),
                UInt8(ascii: ".") where !isDots:
                text.unicodeScalars.append(Unicode.Scalar(byte))
            default: text += "%" + Hexadecimal.encode([byte]).uppercased()
            }
        }
        self.init(text + "/")
    }
}
