/// A JSON object under construction (RFC 8259), for hot paths where an encoder is too slow.
package struct JSONText {
    private var bytes: [UInt8] = []

    /// - Parameter capacity: Approximate size in bytes.
    package init(capacity: Int) {
        bytes.reserveCapacity(capacity)
        bytes.append(UInt8(ascii: "{"))
    }

    package mutating func member(_ name: String, _ value: Int64) {
        begin(name)
        bytes.append(contentsOf: String(value).utf8)
    }

    package mutating func member(_ name: String, _ value: String) {
        begin(name)
        quote(value)
    }

    /// The whole object, followed by a line feed.
    package mutating func finish() -> [UInt8] {
        bytes.append(UInt8(ascii: "}"))
        bytes.append(10)
        return bytes
    }

    private mutating func begin(_ name: String) {
        if bytes.count > 1 { bytes.append(UInt8(ascii: ",")) }
        quote(name)
        bytes.append(UInt8(ascii: ":"))
    }

    /// A string (RFC 8259 §7).
    private mutating func quote(_ text: String) {
        bytes.append(UInt8(ascii: "\""))
        let start = bytes.count
        bytes.append(contentsOf: text.utf8)
        if bytes[start...].contains(where: { $0 < 0x20 || $0 == UInt8(ascii: "\"") || $0 == UInt8(ascii: "\\") }) {
            bytes.removeLast(bytes.count - start)
            for byte in text.utf8 { escape(byte) }
        }
        bytes.append(UInt8(ascii: "\""))
    }

    private mutating func escape(_ byte: UInt8) {
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"):
            bytes.append(UInt8(ascii: "\\"))
            bytes.append(byte)
        case 0..<0x20:
            bytes.append(contentsOf: "\\u00".utf8)
            bytes.append(UInt8(ascii: "0") + (byte >> 4))
            bytes.append(byte & 15 < 10 ? UInt8(ascii: "0") + (byte & 15) : UInt8(ascii: "a") + (byte & 15) - 10)
        default: bytes.append(byte)
        }
    }
}
