internal import Bytes
internal import XMLText

/// Parses the documents of requests.
package enum RequestDocuments {
    /// Maximum sizes in bytes; longer documents are refused unread.
    package enum Limit {
        /// Enough for 10,000 parts with checksums.
        package static let completion = 4 << 20
        /// Enough for 1000 keys.
        package static let deletion = 2 << 20
        package static let tagging = 1 << 16
        package static let cors = 1 << 16
        package static let lifecycle = 1 << 18
        package static let creation = 1 << 14
    }

    /// Parses a document and returns its root.
    ///
    /// - Parameters:
    ///   - bytes: The document.
    ///   - name: The required root element, in any namespace.
    ///   - limit: Maximum size in bytes.
    ///   - containers: The elements that consist of others, besides the root; any other has text only, and these have
    ///     none. Otherwise a value could be read as another one, or as missing.
    ///   - repeated: The elements that may occur several times in one; of any other, clients and servers could take a
    ///     different one.
    /// - Returns: The root with its content.
    /// - Throws: `MalformedXML`, `MaxMessageLengthExceeded`.
    static func root(
        _ bytes: [UInt8],
        _ name: ExactText,
        limit: Int,
        nesting containers: Set<ExactText> = [],
        repeating repeated: Set<ExactText>
    ) throws(ObjectError) -> XMLNode {
        guard bytes.count <= limit else {
            throw ObjectError(
                .maxMessageLengthExceeded,
                details: [ObjectError.Detail("MaxMessageLengthBytes", String(limit))]
            )
        }
        // No valid document has elements this short, but its tree would be many times as large as its text.
        guard bytes.count(where: { $0 == UInt8(ascii: "<") }) <= limit / 16 else { throw ObjectError(.malformedXML) }
        // The parser rejects document types, because entities could expand without limit.
        guard !namesOtherCoding(bytes), let root = XMLNode.parse(bytes), root.name == name else {
            throw ObjectError(.malformedXML)
        }
        guard isDistinct(root, but: repeated), isStructured(root, containers.union([name])) else {
            throw ObjectError(.malformedXML)
        }
        return root
    }

    /// Whether no element is in another one twice, except `repeated`.
    ///
    /// Depth is bounded by the parser's limit.
    private static func isDistinct(_ node: XMLNode, but repeated: Set<ExactText>) -> Bool {
        var names: Set<ExactText> = []
        return node.children.allSatisfy { child in
            (repeated.contains(child.name) || names.insert(child.name).inserted) && isDistinct(child, but: repeated)
        }
    }

    /// Whether elements are in containers only, and no text is beside them.
    private static func isStructured(_ node: XMLNode, _ containers: Set<ExactText>) -> Bool {
        guard !node.children.isEmpty || containers.contains(node.name) else { return true }
        return containers.contains(node.name) && node.text.utf8.allSatisfy(isSpace)
            && node.children.allSatisfy { isStructured($0, containers) }
    }

    /// White space of XML (XML 1.0 §2.3).
    private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D }

    /// Whether the XML declaration names an encoding other than UTF-8.
    private static func namesOtherCoding(_ bytes: [UInt8]) -> Bool {
        let head = String(decoding: bytes.prefix(200), as: UTF8.self).lowercasedASCII()
        guard head.contains("<?xml"), let declaration = head.split(separator: "?>").first else { return false }
        return declaration.contains("encoding") && !declaration.contains("utf-8")
    }
}

extension XMLNode {
    /// The text of the first element with this name, without surrounding white space, or `nil` without such an element.
    func trimmed(_ name: String) -> String? {
        self[name].map { text in
            let isSpace: (UInt8) -> Bool = { $0 == 0x20 || (0x09...0x0D).contains($0) }
            var rest = Substring(text).utf8
            while let first = rest.first, isSpace(first) { rest = rest.dropFirst() }
            while let last = rest.last, isSpace(last) { rest = rest.dropLast() }
            return String(Substring(rest))
        }
    }
}
