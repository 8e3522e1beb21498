/// Reads JSON as `JSONObjectWriter` writes it, without spaces and without escapes; a decoder must read any other.
///
/// Each function returns `nil` for anything else than it says.
///
/// Invariant for the pointer: it is used only within `read`, and only below `bytes.count`.
package struct PlainJSON: ~Copyable {
    private let bytes: UnsafeBufferPointer<UInt8>
    private var index = 0

    private init(_ bytes: UnsafeBufferPointer<UInt8>) { self.bytes = bytes }

    /// - Parameters:
    ///   - text: JSON text.
    ///   - body: Reads the whole text.
    /// - Returns: What `body` returns; `nil` if text is left.
    package static func read<Value>(_ text: String, _ body: (inout PlainJSON) -> Value?) -> Value? {
        var text = text
        return text.withUTF8 { bytes in
            var json = PlainJSON(bytes)
            guard let value = body(&json), json.index == bytes.count else { return nil }
            return value
        }
    }

    /// The members of an object, which are texts.
    package static func texts(in text: String) -> [String: String]? { read(text) { $0.texts() } }

    /// Takes one byte if it is the next one.
    package mutating func takes(_ byte: UInt8) -> Bool {
        guard index < bytes.count, bytes[index] == byte else { return false }
        index += 1
        return true
    }

    /// An object.
    ///
    /// - Parameter member: Reads the value of a member by its name; returns whether it could. A name may come again.
    /// - Returns: Whether there is one, and all members could be read.
    package mutating func object(_ member: (_ name: String, inout PlainJSON) -> Bool) -> Bool {
        guard takes(UInt8(ascii: "{")) else { return false }
        if takes(UInt8(ascii: "}")) { return true }
        repeat {
            guard let name = string(), takes(UInt8(ascii: ":")), member(name, &self) else { return false }
        } while takes(UInt8(ascii: ","))
        return takes(UInt8(ascii: "}"))
    }

    /// An object whose members are texts, with different names.
    package mutating func texts() -> [String: String]? {
        var texts: [String: String] = [:]
        let isRead = object { name, json in
            guard let value = json.string() else { return false }
            return texts.updateValue(value, forKey: name) == nil
        }
        return isRead ? texts : nil
    }

    package mutating func string() -> String? {
        guard takes(UInt8(ascii: "\"")) else { return nil }
        let start = index
        while index < bytes.count, !JSONObjectWriter.mustEscape(bytes[index]) { index += 1 }
        let text = String(validating: bytes[start..<index], as: UTF8.self)
        return takes(UInt8(ascii: "\"")) ? text : nil
    }

    /// A number without sign, fraction and exponent.
    package mutating func number() -> UInt64? {
        let start = index
        var number: UInt64 = 0
        while index < bytes.count, (0x30...0x39).contains(bytes[index]) {
            let (tenfold, isTooLarge) = number.multipliedReportingOverflow(by: 10)
            let (sum, isOver) = tenfold.addingReportingOverflow(UInt64(bytes[index] - 0x30))
            if isTooLarge || isOver { return nil }
            number = sum
            index += 1
        }
        // A number other than 0 does not begin with one.
        return index == start || (bytes[start] == 0x30 && index > start + 1) ? nil : number
    }

    package mutating func bool() -> Bool? { takes("true") ? true : takes("false") ? false : nil }

    /// A list of numbers up to 255.
    package mutating func numbers() -> [UInt8]? {
        guard takes(UInt8(ascii: "[")) else { return nil }
        if takes(UInt8(ascii: "]")) { return [] }
        var numbers: [UInt8] = []
        repeat {
            guard let number = number().flatMap(UInt8.init(exactly:)) else { return nil }
            numbers.append(number)
        } while takes(UInt8(ascii: ","))
        return takes(UInt8(ascii: "]")) ? numbers : nil
    }

    private mutating func takes(_ word: StaticString) -> Bool {
        let count = word.utf8CodeUnitCount
        guard bytes.count - index >= count,
            word.withUTF8Buffer({ wanted in (0..<count).allSatisfy { wanted[$0] == bytes[index + $0] } })
        else { return false }
        index += count
        return true
    }
}
