internal import Bytes
internal import HTTPWire

/// `application/x-www-form-urlencoded` as in the URL standard, with the escapes of RFC 3986 §2.1.
enum FormEncoding {
    /// Appends `text`; escapes everything except the unreserved characters of RFC 3986 §2.3, in upper-case hexadecimal.
    static func append(_ text: String, to bytes: inout [UInt8]) {
        var text = text
        text.withUTF8 { characters in
            if characters.allSatisfy({ PercentEncoding.isUnreserved($0) }) {
                bytes.append(contentsOf: characters)
            } else {
                append(characters, to: &bytes)
            }
        }
    }

    /// Appends `text`; escapes everything except the unreserved characters of RFC 3986 §2.3, in upper-case hexadecimal.
    static func append(_ text: some Sequence<UInt8>, to bytes: inout [UInt8]) {
        for byte in text {
            if PercentEncoding.isUnreserved(byte) {
                bytes.append(byte)
            } else {
                bytes.append(UInt8(ascii: "%"))
                bytes.append(digit(byte >> 4))
                bytes.append(digit(byte & 15))
            }
        }
    }

    /// Decodes `bytes`: `+` is a space, `%XX` a byte; `nil` for an invalid escape or text that is not UTF-8.
    static func decode(_ bytes: ArraySlice<UInt8>) -> String? {
        var decoded: [UInt8] = []
        decoded.reserveCapacity(bytes.count)
        var rest = bytes
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "+"):
                decoded.append(UInt8(ascii: " "))
            case UInt8(ascii: "%"):
                guard let high = rest.popFirst().flatMap(Hexadecimal.value(of:)),
                    let low = rest.popFirst().flatMap(Hexadecimal.value(of:))
                else { return nil }
                decoded.append(high << 4 | low)
            default:
                decoded.append(byte)
            }
        }
        return String(clientText: decoded)
    }

    private static func digit(_ value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "A") + value - 10
    }
}
