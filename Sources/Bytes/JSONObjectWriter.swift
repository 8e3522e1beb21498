/// A JSON object under construction (RFC 8259), for hot paths where an encoder is too slow.
package struct JSONObjectWriter {
    private var bytes: [UInt8] = []

    /// - Parameter capacity: Approximate size in bytes.
    package init(capacity: Int) {
        bytes.reserveCapacity(capacity)
        bytes.append(UInt8(ascii: "{"))
    }

    /// An object whose members are texts, ordered by name.
    package init(_ values: [String: String]) {
        self.init(capacity: 2 + values.reduce(0) { $0 + $1.key.utf8.count + $1.value.utf8.count + 6 })
        for (name, value) in values.sorted(by: { $0.key < $1.key }) { member(name, value) }
    }

    package mutating func member(_ name: String, _ value: Int64) {
        begin(name)
        bytes.append(decimal: value)
    }

    package mutating func member(_ name: String, _ value: Bool) {
        begin(name)
        bytes.append(contentsOf: (value ? "true" : "false").utf8)
    }

    package mutating func member(_ name: String, _ value: String) {
        begin(name)
        quote(value)
    }

    /// A list of texts.
    package mutating func member(_ name: String, _ values: [String]) {
        begin(name)
        bytes.append(UInt8(ascii: "["))
        for (index, value) in values.enumerated() {
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            quote(value)
        }
        bytes.append(UInt8(ascii: "]"))
    }

    /// A list of bytes as numbers.
    package mutating func member(_ name: String, numbers: [UInt8]) {
        begin(name)
        bytes.append(UInt8(ascii: "["))
        for (index, value) in numbers.enumerated() {
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            bytes.append(decimal: Int64(value))
        }
        bytes.append(UInt8(ascii: "]"))
    }

    /// - Parameters:
    ///   - name: The name of the member.
    ///   - json: A value that is JSON text already.
    package mutating func member(_ name: String, json: String) {
        begin(name)
        bytes.append(contentsOf: json.utf8)
    }

    /// The whole object.
    ///
    /// - Parameter lineFeed: Whether a line feed follows.
    /// - Returns: UTF-8 text.
    package mutating func finish(lineFeed: Bool = false) -> [UInt8] {
        bytes.append(UInt8(ascii: "}"))
        if lineFeed { bytes.append(10) }
        return bytes
    }

    /// The whole object.
    package mutating func text() -> String { String(decoding: finish(), as: UTF8.self) }

    private mutating func begin(_ name: String) {
        if bytes.count > 1 { bytes.append(UInt8(ascii: ",")) }
        quote(name)
        bytes.append(UInt8(ascii: ":"))
    }

    /// A string (RFC 8259 §7).
    private mutating func quote(_ text: String) {
        bytes.append(UInt8(ascii: "\""))
        var text = text
        text.withUTF8 { characters in
            if Self.isPlain(characters) {
                bytes.append(contentsOf: characters)
            } else {
                for byte in characters { Self.escape(byte) { bytes.append($0) } }
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }

    /// Whether all bytes of a string can stand for themselves.
    @inlinable
    package static func isPlain(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
        WordScan.allSatisfy(
            text,
            words: {
                !WordScan.has(below: 0x20, $0) && !WordScan.has(UInt8(ascii: "\""), $0)
                    && !WordScan.has(UInt8(ascii: "\\"), $0)
            },
            bytes: { !mustEscape($0) }
        )
    }

    /// Whether a byte of a string cannot stand for itself.
    @inlinable
    package static func mustEscape(_ byte: UInt8) -> Bool {
        byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\")
    }

    /// Puts what stands for a byte of a string: at most six bytes.
    package static func escape(_ byte: UInt8, _ put: (UInt8) -> Void) {
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"):
            put(UInt8(ascii: "\\"))
            put(byte)
        case 0..<0x20:
            for one in "\\u00".utf8 { put(one) }
            put(UInt8(ascii: "0") + (byte >> 4))
            put(byte & 15 < 10 ? UInt8(ascii: "0") + (byte & 15) : UInt8(ascii: "a") + (byte & 15) - 10)
        default: put(byte)
        }
    }
}
