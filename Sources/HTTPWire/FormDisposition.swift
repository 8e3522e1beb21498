internal import Bytes

/// The Content-Disposition of a part of `multipart/form-data` (RFC 7578 §4.2), as browsers and other clients write it.
///
/// Browsers write `"`, CR and LF in names as `%22`, `%0D` and `%0A` and everything else unchanged, including `%` and
/// backslashes ([HTML](https://html.spec.whatwg.org/multipage/form-control-infrastructure.html#multipart-form-data)).
/// Other clients put a backslash before `"` and sometimes before backslashes. Both forms are accepted. `filename*` (RFC
/// 8187) is not allowed in forms, but some clients send it; it takes precedence over `filename`.
package struct FormDisposition: Sendable, Equatable {
    /// The name of the control in the form.
    package let name: String
    /// The file name; only the last part of a path.
    ///
    /// Empty for a file input without a chosen file; `nil` if the part is not a file.
    package let filename: String?

    /// Parses a field; `nil` unless it is `form-data` in UTF-8 with a name and without repeated parameters.
    ///
    /// - Parameter field: The value as received.
    package init?(_ field: some Collection<UInt8>) {
        guard let text = String(clientText: field) else { return nil }
        var rest = Substring(text).utf8[...]
        guard Self.takeToken(&rest)?.lowercasedASCII() == "form-data" else { return nil }
        var values: [String: String] = [:]
        while let (key, value) = Self.takeParameter(&rest) {
            guard values.updateValue(value, forKey: key) == nil else { return nil }
        }
        guard rest.isEmpty, let name = values["name"] else { return nil }
        self.name = name
        let extended = values["filename*"].flatMap { ContentDisposition.extendedValue($0) }
        filename = (extended ?? values["filename"]).map { ContentDisposition.lastPart(of: $0) ?? "" }
    }

    /// Takes the next `;name=value`, with the name in lower case and the value decoded; returns `nil` if no parameter follows.
    private static func takeParameter(_ rest: inout Substring.UTF8View) -> (String, String)? {
        var ahead = rest
        skipSpace(&ahead)
        if ahead.first == UInt8(ascii: ";") {
            ahead = ahead.dropFirst()
            skipSpace(&ahead)
        } else if !ahead.isEmpty {
            return nil
        }
        guard !ahead.isEmpty else {
            // Trailing white space and semicolons are ignored.
            rest = ahead
            return nil
        }
        guard let key = takeToken(&ahead)?.lowercasedASCII() else { return nil }
        skipSpace(&ahead)
        guard ahead.popFirst() == UInt8(ascii: "=") else { return nil }
        skipSpace(&ahead)
        guard let value = ahead.first == UInt8(ascii: "\"") ? takeQuoted(&ahead) : takeToken(&ahead) else { return nil }
        rest = ahead
        return (key, value)
    }

    private static func takeToken(_ rest: inout Substring.UTF8View) -> String? {
        let token = rest.prefix(while: HTTPCharacters.isToken)
        rest = rest[token.endIndex...]
        return token.isEmpty ? nil : String(Substring(token))
    }

    private static func takeQuoted(_ rest: inout Substring.UTF8View) -> String? {
        rest = rest.dropFirst()
        var value: [UInt8] = []
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "\""): return decodePercent(value)
            case UInt8(ascii: "\\"):
                // Before the last quote it is a literal backslash at the end of a name, as browsers send it.
                let isEscape =
                    rest.first == UInt8(ascii: "\\") || rest.first == UInt8(ascii: "\"") && rest.count > 1
                value.append(isEscape ? rest.removeFirst() : byte)
            default: value.append(byte)
            }
        }
        return nil
    }

    /// Decodes only the three sequences that HTML encodes: `%` itself is not encoded.
    private static func decodePercent(_ encoded: [UInt8]) -> String {
        guard encoded.contains(UInt8(ascii: "%")) else { return String(decoding: encoded, as: UTF8.self) }
        var text: [UInt8] = []
        var index = 0
        while index < encoded.count {
            if let meant = meanings.first(where: { encoded[index...].starts(with: $0.code) }) {
                text.append(meant.byte)
                index += 3
            } else {
                text.append(encoded[index])
                index += 1
            }
        }
        return String(decoding: text, as: UTF8.self)
    }

    private static let meanings: [(code: [UInt8], byte: UInt8)] = [
        (Array("%22".utf8), UInt8(ascii: "\"")), (Array("%0D".utf8), 13), (Array("%0A".utf8), 10),
        (Array("%0d".utf8), 13), (Array("%0a".utf8), 10),
    ]

    private static func skipSpace(_ rest: inout Substring.UTF8View) {
        rest = rest.drop(while: HTTPCharacters.isWhitespace)
    }
}
