/// The value types of the Distinguished Encoding Rules (X.690) that keys, signatures and certificates need.
package enum DER {
    /// A non-negative integer, big-endian.
    package static func integer(_ bytes: some Collection<UInt8>) -> [UInt8] {
        let digits = Array(bytes.drop { $0 == 0 })
        // A leading one bit would make the number negative.
        let isClear = digits.first.map { $0 < 0x80 } ?? false
        return value(0x02, (isClear ? [] : [0]) + digits)
    }

    /// Whole bytes.
    package static func bits(_ bytes: [UInt8]) -> [UInt8] { value(0x03, [0] + bytes) }

    package static func octets(_ bytes: [UInt8]) -> [UInt8] { value(0x04, bytes) }

    /// An object identifier.
    ///
    /// - Parameter content: The encoded arcs.
    /// - Returns: The value.
    package static func identifier(_ content: [UInt8]) -> [UInt8] { value(0x06, content) }

    package static func sequence(_ values: [[UInt8]]) -> [UInt8] { value(0x30, Array(values.joined())) }

    /// A tag, its length and its content, up to 65,535 bytes.
    package static func value(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        let count = content.count
        let length: [UInt8] =
            if count < 0x80 { [UInt8(count)] } else if count < 0x100 { [0x81, UInt8(count)] } else {
                [0x82, UInt8(count >> 8 & 0xFF), UInt8(count & 0xFF)]
            }
        return [tag] + length + content
    }

    /// The first value of `bytes`, which must have this tag.
    ///
    /// - Returns: Its content and what follows; `nil` if there is none, or its length needs more than one byte.
    static func content(_ tag: UInt8, of bytes: ArraySlice<UInt8>) -> (ArraySlice<UInt8>, rest: ArraySlice<UInt8>)? {
        guard bytes.count >= 2, bytes[bytes.startIndex] == tag else { return nil }
        let count = Int(bytes[bytes.startIndex + 1])
        let start = bytes.startIndex + 2
        guard count < 0x80, start + count <= bytes.endIndex else { return nil }
        return (bytes[start..<(start + count)], bytes[(start + count)...])
    }
}
