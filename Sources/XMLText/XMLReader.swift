internal import Bytes

/// Parses a small XML document in time proportional to its length.
///
/// It reads what stores and their clients write: elements, text, CDATA, comments, processing instructions and the five
/// predefined entities (XML 1.0 §4.6). It refuses document types: no entity can be declared, so no text can expand
/// beyond its length. Attributes are parsed and ignored. Prefixes are removed from names without resolving them.
package struct XMLReader: ~Copyable {
    /// Limits of a document.
    ///
    /// The receiver of the document limits its size in bytes.
    package struct Limits: Sendable {
        /// Levels of nested elements.
        package var depth = 16
        /// Attributes of one element, including namespace declarations.
        package var attributes = 32
        /// Elements of the whole document.
        package var elements = 200_000
        /// Bytes of text in one element.
        package var text = 1 << 20

        package init() {}
    }

    /// Why a document is not accepted.
    package enum Failure: Error, Equatable {
        case notUTF8
        case malformed
        /// The document exceeds the limits or has a document type.
        case refused
    }

    private let bytes: [UInt8]
    private let limits: Limits
    /// Index of the next byte; it never decreases.
    package private(set) var position = 0
    private var elements = 0
    private var open: [Element] = []
    private var root: XMLNode?

    private struct Element {
        /// As written, with its prefix.
        let name: ArraySlice<UInt8>
        var text: [UInt8] = []
        var children: [XMLNode] = []
    }

    /// - Parameters:
    ///   - bytes: The document, in UTF-8 with or without a byte order mark. Leading white space, which stores send
    /// while they
    ///     work, is skipped.
    ///   - limits: See `Limits`.
    package init(_ bytes: [UInt8], limits: Limits = Limits()) {
        self.bytes = bytes
        self.limits = limits
    }

    /// Reads the whole document.
    ///
    /// Call it once.
    ///
    /// - Returns: The root element.
    package mutating func read() throws(Failure) -> XMLNode {
        guard String(clientText: bytes) != nil else { throw .notUTF8 }
        if takes([0xEF, 0xBB, 0xBF]) {}
        skipSpace()
        while position < bytes.count {
            if bytes[position] == Self.less {
                try readMarkup()
            } else {
                try readText()
            }
        }
        guard open.isEmpty, let root else { throw .malformed }
        return root
    }

    // MARK: Markup

    private mutating func readMarkup() throws(Failure) {
        position += 1
        guard position < bytes.count else { throw .malformed }
        switch bytes[position] {
        case Self.slash:
            position += 1
            try endElement()
        case Self.question:
            // A processing instruction or the XML declaration. Its encoding can be ignored: the bytes are valid UTF-8.
            position += 1
            _ = try upTo("?>")
        case Self.exclamation:
            position += 1
            if takes("--") {
                // Inside a comment, `--` is only allowed as its end (§2.5).
                _ = try upTo("--")
                guard takes(">") else { throw .malformed }
            } else if takes("[CDATA[") {
                let text = try upTo("]]>")
                guard !open.isEmpty else { throw .malformed }
                try append(bytes[text])
            } else {
                throw .refused
            }
        default: try beginElement()
        }
    }

    private mutating func beginElement() throws(Failure) {
        let name = try name()
        guard root == nil || !open.isEmpty else { throw .malformed }
        elements += 1
        guard elements <= limits.elements, open.count < limits.depth else { throw .refused }
        var attributes: Set<ArraySlice<UInt8>> = []
        while true {
            let isApart = skipSpace()
            guard position < bytes.count else { throw .malformed }
            if takes("/>") {
                open.append(Element(name: name))
                return try close()
            }
            if takes(">") {
                open.append(Element(name: name))
                return
            }
            guard isApart else { throw .malformed }
            guard attributes.count < limits.attributes else { throw .refused }
            guard attributes.insert(try attribute()).inserted else { throw .malformed }
        }
    }

    private mutating func attribute() throws(Failure) -> ArraySlice<UInt8> {
        let name = try name()
        skipSpace()
        guard takes("=") else { throw .malformed }
        skipSpace()
        guard position < bytes.count else { throw .malformed }
        let quote = bytes[position]
        guard quote == UInt8(ascii: "\"") || quote == UInt8(ascii: "'") else { throw .malformed }
        position += 1
        while position < bytes.count, bytes[position] != quote {
            switch bytes[position] {
            case Self.less: throw .malformed
            case Self.ampersand: _ = try reference()
            default:
                try checkCharacter()
                position += 1
            }
        }
        guard position < bytes.count else { throw .malformed }
        position += 1
        return name
    }

    private mutating func endElement() throws(Failure) {
        let name = try name()
        skipSpace()
        guard takes(">"), open.last?.name == name else { throw .malformed }
        try close()
    }

    private mutating func close() throws(Failure) {
        guard let element = open.popLast() else { return }
        let name = element.name.lastIndex(of: UInt8(ascii: ":")).map { element.name[($0 + 1)...] } ?? element.name
        // References, too, stand for characters.
        guard let text = String(clientText: element.text) else { throw .notUTF8 }
        let node = XMLNode(
            name: ExactText(String(decoding: name, as: UTF8.self)),
            text: text,
            children: element.children
        )
        if open.isEmpty { root = node } else { open[open.count - 1].children.append(node) }
    }

    // MARK: Text

    private mutating func readText() throws(Failure) {
        guard !open.isEmpty else {
            // Outside the root element only white space is allowed.
            guard skipSpace() else { throw .malformed }
            return
        }
        let start = position
        while position < bytes.count, bytes[position] != Self.less, bytes[position] != Self.ampersand {
            try checkCharacter()
            position += 1
        }
        if start < position { try append(bytes[start..<position]) }
        if position < bytes.count, bytes[position] == Self.ampersand { try append(reference: try reference()) }
    }

    private mutating func append(reference text: [UInt8]) throws(Failure) {
        guard let last = open.indices.last, open[last].text.count + text.count <= limits.text else { throw .refused }
        open[last].text += text
    }

    private mutating func append(_ text: ArraySlice<UInt8>) throws(Failure) {
        guard let last = open.indices.last, open[last].text.count + text.count <= limits.text else { throw .refused }
        // Each line end becomes one LINE FEED (§2.11).
        guard text.contains(0x0D) else {
            open[last].text.append(contentsOf: text)
            return
        }
        for index in text.indices {
            if text[index] != 0x0D {
                open[last].text.append(text[index])
            } else if index + 1 == text.endIndex || text[index + 1] != 0x0A {
                open[last].text.append(0x0A)
            }
        }
    }

    /// A reference such as `&lt;` or `&#10;` (§4.1).
    private mutating func reference() throws(Failure) -> [UInt8] {
        position += 1
        let start = position
        // The longest is the highest character number with leading zeros.
        while position < bytes.count, bytes[position] != UInt8(ascii: ";"), position - start < 16 { position += 1 }
        guard position < bytes.count, bytes[position] == UInt8(ascii: ";") else { throw .malformed }
        let name = bytes[start..<position]
        position += 1
        if name.first == UInt8(ascii: "#") { return try character(name.dropFirst()) }
        switch ExactText(String(decoding: name, as: UTF8.self)) {
        case "lt": return [Self.less]
        case "gt": return [UInt8(ascii: ">")]
        case "amp": return [Self.ampersand]
        case "quot": return [UInt8(ascii: "\"")]
        case "apos": return [UInt8(ascii: "'")]
        default: throw .malformed
        }
    }

    private func character(_ digits: ArraySlice<UInt8>) throws(Failure) -> [UInt8] {
        let isHexadecimal = digits.first == UInt8(ascii: "x")
        let digits = isHexadecimal ? digits.dropFirst() : digits
        let text = String(decoding: digits, as: UTF8.self)
        guard digits.first != UInt8(ascii: "+"), let value = UInt32(text, radix: isHexadecimal ? 16 : 10),
            let scalar = Unicode.Scalar(value), Self.isCharacter(value)
        else { throw .malformed }
        return Array(String(Character(scalar)).utf8)
    }

    // MARK: Pieces

    /// A name.
    ///
    /// Only its first byte and the bytes that end it are checked (§2.3).
    private mutating func name() throws(Failure) -> ArraySlice<UInt8> {
        let start = position
        while position < bytes.count, Self.isInName(bytes[position]) { position += 1 }
        let name = bytes[start..<position]
        let digitsAndSigns = [UInt8(ascii: "-"), UInt8(ascii: ".")] + (UInt8(ascii: "0")...UInt8(ascii: "9"))
        guard let first = name.first, !digitsAndSigns.contains(first), name.last != UInt8(ascii: ":") else {
            throw .malformed
        }
        return name
    }

    /// The range before `end`; moves behind `end`.
    private mutating func upTo(_ end: StaticString) throws(Failure) -> Range<Int> {
        let start = position
        while position < bytes.count {
            let before = position
            if takes(end) { return start..<before }
            try checkCharacter()
            position += 1
        }
        throw .malformed
    }

    /// - Returns: Whether there was any white space.
    @discardableResult
    private mutating func skipSpace() -> Bool {
        let start = position
        while position < bytes.count, Self.isSpace(bytes[position]) { position += 1 }
        return position > start
    }

    private mutating func takes(_ text: StaticString) -> Bool {
        takes(UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    private mutating func takes(_ wanted: some Collection<UInt8>) -> Bool {
        guard bytes[position...].starts(with: wanted) else { return false }
        position += wanted.count
        return true
    }

    /// Control characters are not allowed (§2.2).
    private func checkCharacter() throws(Failure) {
        guard bytes[position] >= 0x20 || Self.isSpace(bytes[position]) else { throw .malformed }
    }

    private static let less = UInt8(ascii: "<")
    private static let slash = UInt8(ascii: "/")
    private static let question = UInt8(ascii: "?")
    private static let exclamation = UInt8(ascii: "!")
    private static let ampersand = UInt8(ascii: "&")

    private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D }

    private static func isCharacter(_ value: UInt32) -> Bool {
        value >= 0x20 && value != 0xFFFE && value != 0xFFFF || value == 0x09 || value == 0x0A || value == 0x0D
    }

    private static func isInName(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"), UInt8(ascii: "."),
            UInt8(ascii: ":"), 0x80...:
            true
        default: false
        }
    }
}
