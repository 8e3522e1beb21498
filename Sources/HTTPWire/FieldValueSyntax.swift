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

    /// Splits `text` like `split`, but from its end: what is at its beginning does not change how the end is read.
    ///
    /// - Returns: The last piece first; `nil` after them if the beginning is within a quoted string that was never opened.
    static func splitFromEnd(_ text: String, at separator: UInt8) -> [String?] {
        let bytes = Array(text.utf8)
        var pieces: [String?] = []
        var end = bytes.count
        var isQuoted = false
        func finishPiece(_ start: Int) {
            let piece = String(decoding: bytes[start..<end], as: UTF8.self).trimmingWhitespace()
            if !piece.isEmpty { pieces.append(piece) }
        }
        var index = bytes.count
        while index > 0 {
            index -= 1
            if bytes[index] == UInt8(ascii: "\"") {
                // Within a quoted string, one after an odd number of backslashes is escaped (RFC 9110 §5.6.4).
                var first = index
                while isQuoted, first > 0, bytes[first - 1] == UInt8(ascii: "\\") { first -= 1 }
                if (index - first) % 2 == 0 { isQuoted.toggle() }
                index = first
            } else if bytes[index] == separator, !isQuoted {
                finishPiece(index + 1)
                end = index
            }
        }
        if isQuoted { pieces.append(nil) } else { finishPiece(0) }
        return pieces
    }

    /// Decodes a token or a quoted string (RFC 9110 §5.6.2, §5.6.4); `nil` for anything else.
    ///
    /// The backslashes of a quoted string may stand between combining marks, so what is left is checked again.
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
        return isClosed ? String(clientText: output) : nil
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
