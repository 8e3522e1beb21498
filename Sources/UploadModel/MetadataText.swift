internal import Bytes

/// The rule for texts in metadata, applied wherever an upload gets some, in whatever protocol they came.
///
/// A control character makes one name look like another, ends a line of a log or a field, and is where some programs
/// stop reading: `evil.exe`, NUL, `.jpg`.
package enum MetadataText {
    /// The values that name the file or its media type, on one line.
    private static let names: Set<String> = ["filename", "name", "filetype", "type"]

    /// Whether a text can be a file name, a media type, or the name of a value.
    package static func isName(_ text: String) -> Bool { !text.unicodeScalars.contains(where: isControl) }

    /// Whether a text can be any other value, which only its app reads: not every program keeps what follows a NUL.
    private static func isValue(_ text: String) -> Bool { !text.unicodeScalars.contains("\0") }

    private static func isControl(_ scalar: Unicode.Scalar) -> Bool {
        scalar.value < 0x20 || (0x7F...0x9F).contains(scalar.value)
    }

    /// Checks the values that an upload is to get.
    ///
    /// - Parameters:
    ///   - values: By name.
    ///   - known: The current values; those that stay are not checked again.
    /// - Throws: `.invalidRequest`.
    package static func check(_ values: [String: String], known: [String: String] = [:]) throws(UploadError) {
        for (name, value) in values where known[name].map({ !$0.utf8.elementsEqual(value.utf8) }) ?? true {
            guard isName(name) else {
                throw UploadError(
                    .invalidRequest,
                    "A name in the metadata has the control character \(code(in: name)); use printable characters."
                )
            }
            guard names.contains(name) ? isName(value) : isValue(value) else {
                throw UploadError(
                    .invalidRequest,
                    "The metadata `\(name.first(scalars: 64))` has the control character "
                        + "\(names.contains(name) ? code(in: value) : "U+0000"); remove it."
                )
            }
        }
    }

    /// The first refused character, as `U+0000`.
    private static func code(in text: String) -> String {
        let scalar = text.unicodeScalars.first(where: isControl) ?? "\0"
        let digits = String(scalar.value, radix: 16, uppercase: true)
        return "U+" + String(repeating: "0", count: max(0, 4 - digits.count)) + digits
    }
}

extension [String: String] {
    /// Sets these values, under their names as they are spelled here.
    ///
    /// A dictionary keeps the spelling of a name that it has: a client that sent a canonically equivalent one would hide the value from
    /// those who look for the name by its bytes.
    package mutating func replace(with values: [String: String]) {
        for (name, value) in values {
            self[name] = nil
            self[name] = value
        }
    }

    /// Sets these values in place of those under names that are equal without the case of ASCII letters.
    ///
    /// Header fields of objects make one name of them.
    package mutating func replaceIgnoringCase(with values: [String: String]) {
        let taken = Set(values.keys.map { ExactText($0.lowercasedASCII()) })
        self = filter { !taken.contains(ExactText($0.key.lowercasedASCII())) }
        replace(with: values)
    }
}
