internal import Bytes

/// Reads and writes Content-Disposition (RFC 6266, RFC 8187).
package enum ContentDisposition {
    /// `attachment` with a file name that is safe for any content of `fileName`.
    ///
    /// Path separators and control characters become `_`. If the name is not plain ASCII, `filename*` has it in UTF-8,
    /// and `filename` has a replacement for old clients:
    ///
    ///     report.pdf      attachment; filename="report.pdf"
    ///     Übung "1".mp4   attachment; filename="_bung _1_.mp4"; filename*=UTF-8''%C3%9Cbung%20%221%22.mp4
    ///     ../etc/passwd   attachment; filename=".._etc_passwd"
    package static func attachment(fileName: String) -> String { write("attachment", fileName) }

    /// Like `attachment`, for content that a browser may display.
    package static func inline(fileName: String) -> String { write("inline", fileName) }

    /// The file name in a field: from `filename*` if it is in UTF-8, otherwise from `filename`; only the last part of a
    /// path.
    ///
    /// - Returns: `nil` if the field has no file name or is malformed.
    package static func fileName(in field: String) -> String? {
        var plain: String?
        for piece in FieldValueSyntax.split(field, at: UInt8(ascii: ";")).dropFirst() {
            if piece.lowercasedASCII().hasPrefix(extendedName),
                let extended = extendedValue(String(piece.dropFirst(extendedName.count)))
            {
                return lastPart(of: extended)
            }
            if let (name, value) = FieldValueSyntax.parameter(piece), name == "filename" { plain = value }
        }
        return plain.flatMap(lastPart)
    }

    /// All file names in a field: which of them a client uses, and how it reads a malformed field, is up to the client.
    ///
    ///     attachment; filename="a.png"; filename*=UTF-8''b.exe     a.png, b.exe
    ///     attachment                                               none
    ///     attachment; filename=a b.exe                             nil
    ///
    /// - Returns: The last parts of the paths, in order; `nil` if a name may be in the field that cannot be read for certain.
    package static func fileNames(in field: String) -> [String]? {
        let pieces = FieldValueSyntax.split(field, at: UInt8(ascii: ";"))
        let parameters = pieces.dropFirst().map { FieldValueSyntax.parameter($0) }
        guard FieldValueSyntax.isToken(pieces.first ?? ""), !parameters.contains(where: { $0 == nil }) else {
            return field.lowercasedASCII().utf8.contains("filename".utf8) ? nil : []
        }
        var names: [String] = []
        for case let (name, value)? in parameters where name == "filename" || name.hasPrefix("filename*") {
            guard let decoded = name == "filename" ? value : name == "filename*" ? anyExtendedValue(value) : nil else {
                // An unknown character set, or a part of a name (RFC 2231 §3).
                return nil
            }
            if let last = lastPart(of: decoded) { names.append(last) }
        }
        return names
    }

    private static let extendedName = "filename*="

    /// Like `extendedValue`, also in ISO-8859-1, which browsers read.
    private static func anyExtendedValue(_ value: String) -> String? {
        if let text = extendedValue(value) { return text }
        let parts = value.utf8.split(separator: UInt8(ascii: "'"), maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, String(Substring(parts[0])).lowercasedASCII() == "iso-8859-1" else { return nil }
        return PercentEncoding.decode(parts[2]).map { bytes in
            String(String.UnicodeScalarView(bytes.map { Unicode.Scalar($0) }))
        }
    }

    /// RFC 8187 §3.2.1: character set, language and percent-encoded bytes, separated by apostrophes.
    static func extendedValue(_ value: String) -> String? {
        let parts = value.utf8
            .split(separator: UInt8(ascii: "'"), maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, String(Substring(parts[0])).lowercasedASCII() == "utf-8" else { return nil }
        return PercentEncoding.text(parts[2])
    }

    /// RFC 6266 §4.3: recipients must not use a path from a file name.
    static func lastPart(of name: String) -> String? {
        // Bytes, not characters: a separator followed by a combining mark is a different Character but still a
        // separator.
        name.utf8.split { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "\\") }.last.map { String(Substring($0)) }
    }

    private static func write(_ type: String, _ fileName: String) -> String {
        let name = sanitized(fileName)
        let plain = String(
            String.UnicodeScalarView(name.unicodeScalars.map { isPlain($0) ? $0 : "_" })
        )
        let value = "\(type); filename=\"\(plain)\""
        guard plain != name else { return value }
        // RFC 8187 §3.2.1.
        return value + "; filename*=UTF-8''"
            + PercentEncoding.encode(name, allowing: PercentEncoding.isAttributeCharacter)
    }

    private static func sanitized(_ fileName: String) -> String {
        let scalars = fileName.unicodeScalars.prefix(255).map { isHarmful($0) ? "_" : $0 }
        let name = String(String.UnicodeScalarView(scalars))
        // RFC 6266 §4.3: names with a special meaning in the file system.
        return name.isEmpty || name.allSatisfy { $0 == "." || $0 == " " } ? "download" : name
    }

    /// Path separators, control characters, and bidirectional marks, which make a name look like another one.
    private static func isHarmful(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0..<0x20, 0x7F..<0xA0, 0x2F, 0x5C, 0x200E...0x200F, 0x2028...0x202E, 0x2066...0x2069: true
        default: false
        }
    }

    /// Allowed in the quoted `filename`.
    ///
    /// `%` and backslash are not: some clients decode `%`, others treat a backslash as an escape (RFC 6266 §D).
    private static func isPlain(_ scalar: Unicode.Scalar) -> Bool {
        scalar.value >= 0x20 && scalar.value < 0x7F && scalar != "\"" && scalar != "\\" && scalar != "%"
    }
}
