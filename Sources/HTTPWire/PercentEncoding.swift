internal import Bytes

/// Percent-encoding (RFC 3986 §2.1).
package enum PercentEncoding {
    /// Encodes `text` in UTF-8; every byte that `isAllowed` rejects becomes `%XX` in upper case.
    package static func encode(
        _ text: some StringProtocol,
        allowing isAllowed: (UInt8) -> Bool = isUnreserved
    ) -> String {
        let digits = Array("0123456789ABCDEF".utf8)
        var output: [UInt8] = []
        output.reserveCapacity(text.utf8.count)
        for byte in text.utf8 {
            if isAllowed(byte) {
                output.append(byte)
            } else {
                output.append(UInt8(ascii: "%"))
                output.append(digits[Int(byte >> 4)])
                output.append(digits[Int(byte & 15)])
            }
        }
        return String(decoding: output, as: UTF8.self)
    }

    /// Decodes `encoded` once; `nil` if a `%` is not followed by two hexadecimal digits.
    ///
    /// - Parameters:
    ///   - encoded: ASCII text.
    ///   - plusIsSpace: Whether `+` means a space, as only in `application/x-www-form-urlencoded`.
    /// - Returns: Arbitrary bytes, not necessarily UTF-8.
    package static func decode(_ encoded: some Sequence<UInt8>, plusIsSpace: Bool = false) -> [UInt8]? {
        var output: [UInt8] = []
        output.reserveCapacity(encoded.underestimatedCount)
        var iterator = encoded.makeIterator()
        while let byte = iterator.next() {
            switch byte {
            case UInt8(ascii: "%"):
                guard let high = iterator.next().flatMap(Hexadecimal.value(of:)),
                    let low = iterator.next().flatMap(Hexadecimal.value(of:))
                else { return nil }
                output.append(high << 4 | low)
            case UInt8(ascii: "+") where plusIsSpace:
                output.append(0x20)
            default:
                output.append(byte)
            }
        }
        return output
    }

    /// The text that `encoded` stands for; `nil` if a `%` is not followed by two hexadecimal digits, or if it is no text
    /// that `ClientText` allows.
    package static func text(_ encoded: some Sequence<UInt8>) -> String? {
        decode(encoded).flatMap { String(clientText: $0) }
    }

    /// RFC 3986 §2.3: letters, digits, `-`, `.`, `_`, `~`.
    @inlinable @inline(__always)
    package static func isUnreserved(_ byte: UInt8) -> Bool {
        HTTPCharacters.contains(byte, 0x03FF_6000_0000_0000, 0x47FF_FFFE_87FF_FFFE)
    }

    /// RFC 3986 §2.2, `sub-delims`.
    package static func isSubDelimiter(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "!"), UInt8(ascii: "$"), UInt8(ascii: "&"), UInt8(ascii: "'"), UInt8(ascii: "("),
            UInt8(ascii: ")"), UInt8(ascii: "*"), UInt8(ascii: "+"), UInt8(ascii: ","), UInt8(ascii: ";"),
            UInt8(ascii: "="):
            true
        default: false
        }
    }

    /// RFC 3986 §3.3, `pchar`: allowed unencoded in a path segment.
    package static func isPathCharacter(_ byte: UInt8) -> Bool {
        isUnreserved(byte) || isSubDelimiter(byte) || byte == UInt8(ascii: ":") || byte == UInt8(ascii: "@")
    }

    /// RFC 8187 §3.2.1, `attr-char`: allowed unencoded in an extended parameter value.
    package static func isAttributeCharacter(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "*"), UInt8(ascii: "'"), UInt8(ascii: "%"): false
        default: HTTPCharacters.isToken(byte)
        }
    }
}
