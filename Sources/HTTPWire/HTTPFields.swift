internal import Bytes

/// Header or trailer fields, in their original order and spelling.
///
/// All fields share one byte array and the entries are offsets into it: parsing creates no strings, and writing is a
/// copy.
package struct HTTPFields: Sendable {
    /// Position of one field's name and value in `bytes`; the value excludes surrounding white space.
    package struct Entry: Sendable, Equatable {
        package var nameStart: UInt32
        package var nameLength: UInt32
        package var valueStart: UInt32
        package var valueLength: UInt32

        package init(nameStart: Int, nameLength: Int, valueStart: Int, valueLength: Int) {
            self.nameStart = UInt32(truncatingIfNeeded: nameStart)
            self.nameLength = UInt32(truncatingIfNeeded: nameLength)
            self.valueStart = UInt32(truncatingIfNeeded: valueStart)
            self.valueLength = UInt32(truncatingIfNeeded: valueLength)
        }
    }

    package private(set) var bytes: [UInt8]
    package private(set) var entries: [Entry]

    package init() {
        bytes = []
        entries = []
    }

    /// The fields that a parser found in `bytes`.
    ///
    /// - Precondition: Every entry lies inside `bytes`, which has fewer than 4 GiB.
    package init(parsed bytes: [UInt8], entries: [Entry]) {
        self.bytes = bytes
        self.entries = entries
    }

    package init(_ pairs: KeyValuePairs<FieldName, String>) {
        self.init()
        for (name, value) in pairs { append(name, value) }
    }

    package var isEmpty: Bool { entries.isEmpty }

    /// All values of the field in order, joined by ", " as RFC 9110 §5.3 defines; `nil` if the field is absent.
    ///
    /// For a field that is allowed once, this exposes a repetition (`5, 6` is not a number) instead of hiding it.
    /// Setting a value replaces all fields of that name; `nil` removes them.
    package subscript(name: FieldName) -> String? {
        get {
            var first: Int?
            var joined: String?
            for index in entries.indices where matches(index, name) {
                if let text = joined {
                    joined = text + ", " + value(at: index)
                } else if let earlier = first {
                    joined = value(at: earlier) + ", " + value(at: index)
                } else {
                    first = index
                }
            }
            return joined ?? first.map(value(at:))
        }
        set {
            entries = entries.indices.filter { !matches($0, name) }.map { entries[$0] }
            if let newValue { append(name, newValue) }
        }
    }

    /// The number of fields with this name.
    package func count(of name: FieldName) -> Int {
        var count = 0
        for index in entries.indices where matches(index, name) { count += 1 }
        return count
    }

    package func contains(_ name: FieldName) -> Bool {
        entries.indices.contains { matches($0, name) }
    }

    /// The values of the field, each separately, in order.
    package func all(_ name: FieldName) -> [String] {
        entries.indices.filter { matches($0, name) }.map(value(at:))
    }

    /// The elements of a comma-separated list field (RFC 9110 §5.6.1), trimmed, without empty ones.
    ///
    /// Not for fields whose elements can contain quoted commas.
    package func list(_ name: FieldName) -> [String] {
        all(name).flatMap { $0.utf8.split(separator: UInt8(ascii: ",")) }
            .map { Substring($0).trimmingWhitespace() }
            .filter { !$0.isEmpty }
    }

    /// Adds one field.
    ///
    /// Control characters in `value` become spaces, so that a value cannot end the field (RFC 9110 §5.5).
    package mutating func append(_ name: FieldName, _ value: String) {
        let nameStart = bytes.count
        var (spelling, value) = (name.spelling, value)
        spelling.withUTF8 { bytes.append(contentsOf: $0) }
        let valueStart = bytes.count
        let isPlain = value.withUTF8 { text in
            bytes.append(contentsOf: text)
            return WordScan.allSatisfy(
                text,
                words: { !WordScan.hasControl($0) },
                bytes: { HTTPCharacters.isFieldValue($0) }
            )
        }
        if !isPlain {
            for index in valueStart..<bytes.count where !HTTPCharacters.isFieldValue(bytes[index]) {
                bytes[index] = UInt8(ascii: " ")
            }
        }
        entries.append(
            Entry(
                nameStart: nameStart,
                nameLength: valueStart - nameStart,
                valueStart: valueStart,
                valueLength: bytes.count - valueStart
            )
        )
    }

    package mutating func append(contentsOf other: HTTPFields) {
        for entry in other.entries {
            let shift = bytes.count - Int(entry.nameStart)
            // Name and value need not be adjacent in `other`, so each is copied separately.
            bytes.append(contentsOf: other.bytes[other.nameRange(entry)])
            let valueStart = bytes.count
            bytes.append(contentsOf: other.bytes[other.valueRange(entry)])
            entries.append(
                Entry(
                    nameStart: Int(entry.nameStart) + shift,
                    nameLength: Int(entry.nameLength),
                    valueStart: valueStart,
                    valueLength: Int(entry.valueLength)
                )
            )
        }
    }

    /// The bytes of the value as received; for signatures over raw field values.
    package func rawValue(at index: Int) -> ArraySlice<UInt8> { bytes[valueRange(entries[index])] }

    package func rawName(at index: Int) -> ArraySlice<UInt8> { bytes[nameRange(entries[index])] }

    package func name(at index: Int) -> String { String(decoding: rawName(at: index), as: UTF8.self) }

    package func value(at index: Int) -> String { String(decoding: rawValue(at: index), as: UTF8.self) }

    /// Appends every field as `name: value CRLF`.
    package func serialize(into output: inout [UInt8]) {
        for entry in entries {
            output.append(contentsOf: bytes[nameRange(entry)])
            output.append(UInt8(ascii: ":"))
            output.append(UInt8(ascii: " "))
            output.append(contentsOf: bytes[valueRange(entry)])
            output.append(13)
            output.append(10)
        }
    }

    private func nameRange(_ entry: Entry) -> Range<Int> {
        Int(entry.nameStart)..<Int(entry.nameStart) + Int(entry.nameLength)
    }

    private func valueRange(_ entry: Entry) -> Range<Int> {
        Int(entry.valueStart)..<Int(entry.valueStart) + Int(entry.valueLength)
    }

    private func matches(_ index: Int, _ name: FieldName) -> Bool {
        let entry = entries[index]
        var wanted = name.spelling
        guard Int(entry.nameLength) == wanted.utf8.count else { return false }
        // Bytes in memory: those of a short text would be taken out of it one by one.
        return wanted.withUTF8 { wanted in
            var position = Int(entry.nameStart)
            for byte in wanted {
                if HTTPCharacters.lower(bytes[position]) != HTTPCharacters.lower(byte) { return false }
                position += 1
            }
            return true
        }
    }
}

extension HTTPFields: ExpressibleByDictionaryLiteral {
    package init(dictionaryLiteral elements: (FieldName, String)...) {
        self.init()
        for (name, value) in elements { append(name, value) }
    }
}

extension HTTPFields: Equatable {
    /// Equal names (ignoring case) and values in the same order.
    package static func == (left: HTTPFields, right: HTTPFields) -> Bool {
        left.entries.count == right.entries.count
            && left.entries.indices.allSatisfy { index in
                left.rawName(at: index).elementsEqual(right.rawName(at: index)) {
                    HTTPCharacters.lower($0) == HTTPCharacters.lower($1)
                } && left.rawValue(at: index).elementsEqual(right.rawValue(at: index))
            }
    }
}

extension StringProtocol {
    /// The text without spaces and tabs at both ends (OWS of RFC 9110 §5.6.3).
    package func trimmingWhitespace() -> String {
        // Bytes, not characters: a space followed by a combining mark is a different Character but still white space.
        var view = Substring(self).utf8
        while let first = view.first, HTTPCharacters.isWhitespace(first) { view = view.dropFirst() }
        while let last = view.last, HTTPCharacters.isWhitespace(last) { view = view.dropLast() }
        return String(Substring(view))
    }
}
