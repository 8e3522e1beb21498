internal import Foundation

/// A text that is compared by its bytes, such as a name that came from the network.
///
/// A `String` also equals what is canonically equivalent: "é" as one character and as "e" with an accent, "K" and the
/// kelvin sign (U+212A), ";" and the Greek question mark (U+037E).
package struct ExactText: Hashable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
    package let text: String

    package init(_ text: String) { self.text = text }

    package init(stringLiteral value: String) { text = value }

    package static func == (one: ExactText, other: ExactText) -> Bool {
        var (one, other) = (one.text, other.text)
        return one.withUTF8 { one in
            other.withUTF8 { other in
                guard one.count == other.count else { return false }
                // Both have as many bytes.
                guard let first = one.baseAddress, let second = other.baseAddress else { return true }
                return memcmp(first, second, one.count) == 0
            }
        }
    }

    package func hash(into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }

    package var description: String { text }
}

/// Values by names that are compared by their bytes; see `ExactText`.
package struct ExactNames<Value> {
    private var entries: [ExactText: Value]

    package init() { entries = [:] }

    package init(_ values: [String: Value]) {
        self.init()
        for (name, value) in values { self[name] = value }
    }

    package init(uniqueKeysWithValues pairs: some Sequence<(String, Value)>) {
        self.init()
        for (name, value) in pairs { self[name] = value }
    }

    package var count: Int { entries.count }

    package var isEmpty: Bool { entries.isEmpty }

    /// In no order.
    package var keys: [String] { entries.keys.map(\.text) }

    /// In no order.
    package var values: [Value] { Array(entries.values) }

    /// For encoders; of names that a `String` finds equal, one.
    package var dictionary: [String: Value] {
        Dictionary(entries.map { ($0.key.text, $0.value) }) { first, _ in first }
    }

    // Values are changed in place: setters would copy a value with all it contains for each change of it.
    package subscript(name: String) -> Value? {
        get { entries[ExactText(name)] }
        _modify { yield &entries[ExactText(name)] }
    }

    package subscript(name: String, default value: @autoclosure () -> Value) -> Value {
        get { entries[ExactText(name)] ?? value() }
        _modify { yield &entries[ExactText(name), default: value()] }
    }

    /// - Returns: The value that the name had.
    @discardableResult
    package mutating func updateValue(_ value: Value, forKey name: String) -> Value? {
        entries.updateValue(value, forKey: ExactText(name))
    }

    /// - Returns: The value that the name had.
    @discardableResult
    package mutating func removeValue(forKey name: String) -> Value? { entries.removeValue(forKey: ExactText(name)) }

    package func filter(_ isIncluded: (Element) throws -> Bool) rethrows -> Self {
        var kept = self
        kept.entries = try entries.filter { try isIncluded((key: $0.key.text, value: $0.value)) }
        return kept
    }

    package func mapValues<Other>(_ transform: (Value) throws -> Other) rethrows -> ExactNames<Other> {
        var mapped = ExactNames<Other>()
        for (name, value) in entries { mapped[name.text] = try transform(value) }
        return mapped
    }

    package func merging(_ other: Self, _ combine: (Value, Value) throws -> Value) rethrows -> Self {
        var merged = self
        merged.entries = try entries.merging(other.entries, uniquingKeysWith: combine)
        return merged
    }
}

extension ExactNames: Sequence {
    package typealias Element = (key: String, value: Value)

    package struct Iterator: IteratorProtocol {
        private var entries: Dictionary<ExactText, Value>.Iterator

        fileprivate init(_ entries: Dictionary<ExactText, Value>.Iterator) { self.entries = entries }

        package mutating func next() -> Element? { entries.next().map { (key: $0.key.text, value: $0.value) } }
    }

    package func makeIterator() -> Iterator { Iterator(entries.makeIterator()) }
}

extension ExactNames: ExpressibleByDictionaryLiteral {
    package init(dictionaryLiteral elements: (String, Value)...) {
        self.init()
        for (name, value) in elements { self[name] = value }
    }
}

extension ExactNames: Equatable where Value: Equatable {}

extension ExactNames: Sendable where Value: Sendable {}

extension StringProtocol {
    /// Whether both have the same bytes; `==` also finds canonically equivalent texts equal.
    ///
    /// Inlinable, because a generic function that is not specialised costs more than the comparison.
    @inlinable
    package func isExactly(_ other: some StringProtocol) -> Bool {
        // The length of a native string is known.
        utf8.count == other.utf8.count && utf8.elementsEqual(other.utf8)
    }

    /// ASCII letters in lower case, everything else unchanged.
    ///
    /// `lowercased()` makes an ASCII letter of the kelvin sign, which no protocol means.
    @inlinable
    package func lowercasedASCII() -> String { ASCIILetters.lowercased(String(self)) }

    /// ASCII letters in upper case, everything else unchanged.
    ///
    /// `uppercased()` makes an S of the long s (U+017F).
    @inlinable
    package func uppercasedASCII() -> String { ASCIILetters.uppercased(String(self)) }
}

/// Not generic, because generic functions that are not specialised cost more than what they do.
@usableFromInline
enum ASCIILetters {
    @usableFromInline
    static func lowercased(_ text: String) -> String {
        replaced(UInt8(ascii: "A")...UInt8(ascii: "Z"), in: text) { $0 | 0x20 }
    }

    @usableFromInline
    static func uppercased(_ text: String) -> String {
        replaced(UInt8(ascii: "a")...UInt8(ascii: "z"), in: text) { $0 & 0xDF }
    }

    private static func replaced(_ letters: ClosedRange<UInt8>, in text: String, by other: (UInt8) -> UInt8) -> String {
        var text = text
        let changed = text.withUTF8 { bytes -> String? in
            guard bytes.contains(where: { letters ~= $0 }) else { return nil }
            return String(unsafeUninitializedCapacity: bytes.count) { output in
                for index in bytes.indices {
                    let byte = bytes[index]
                    output[index] = letters ~= byte ? other(byte) : byte
                }
                return bytes.count
            }
        }
        return changed ?? text
    }
}
