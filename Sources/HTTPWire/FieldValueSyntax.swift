internal import Bytes

/// Lists, parameters and quoted strings inside field values (RFC 9110 §5.6).
enum FieldValueSyntax {
    /// Splits `text` at separators outside quoted strings; trims the pieces and leaves out empty ones.
    static func split(_ text: some StringProtocol, at separator: UInt8) -> [String] {
        var pieces: [String] = []
        var current: [UInt8] = []
        var isQuoted = false
        var isEscaped = false
        func finishPiece() {
            let piece = String(decoding: current, as: UTF8.self).trimmingWhitespace()
            if !piece.isEmpty { pieces.append(piece) }
            current.removeAll(keepingCapacity: true)
        }
        for byte in text.utf8 {
            if isEscaped {
                isEscaped = false
            } else if isQuoted, byte == UInt8(ascii: "\\") {
                isEscaped = true
            } else if byte == UInt8(ascii: "\"") {
                isQuoted.toggle()
            } else if byte == separator, !isQuoted {
                finishPiece()
                continue
            }
            current.append(byte)
        }
        finishPiece()
        return pieces
    }

    /// Decodes a token or a quoted string (RFC 9110 §5.6.2, §5.6.4); `nil` for anything else.
    static func unquote(_ text: some StringProtocol) -> String? {
        guard text.utf8.first == UInt8(ascii: "\"") else { return isToken(text) ? String(text) : nil }
        var output: [UInt8] = []
        var isEscaped = false
        var isClosed = false
        for byte in text.utf8.dropFirst() {
            if isClosed { return nil }
            if isEscaped {
                output.append(byte)
                isEscaped = false
            } else if byte == UInt8(ascii: "\\") {
                isEscaped = true
            } else if byte == UInt8(ascii: "\"") {
                isClosed = true
            } else {
                output.append(byte)
            }
        }
        return isClosed ? String(decoding: output, as: UTF8.self) : nil
    }

    /// The name (in lower case) and the value of `name=value`; `nil` for anything else.
    static func parameter(_ text: some StringProtocol) -> (name: String, value: String)? {
        guard let equals = text.firstIndex(of: "=") else { return nil }
        let name = text[..<equals]
        guard isToken(name), let value = unquote(text[text.index(after: equals)...]) else { return nil }
        return (name.lowercasedASCII(), value)
    }

    static func isToken(_ text: some StringProtocol) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy(HTTPCharacters.isToken)
    }
}
