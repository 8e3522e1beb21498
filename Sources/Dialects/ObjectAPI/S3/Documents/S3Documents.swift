internal import XMLText

/// Reads the documents of requests.
package enum S3Documents {
    /// Most bytes of each; longer ones are refused unread.
    package enum Limit {
        /// 10,000 parts with checksums.
        package static let completion = 4 << 20
        /// 1000 keys.
        package static let deletion = 2 << 20
        package static let tagging = 1 << 16
        package static let cors = 1 << 16
        package static let lifecycle = 1 << 18
        package static let creation = 1 << 14
    }

    /// The root of a document.
    ///
    /// - Parameters:
    ///   - bytes: The document.
    ///   - name: That the root must have, in any namespace.
    ///   - limit: Most bytes.
    /// - Returns: With all that is in it.
    /// - Throws: `MalformedXML`, `MaxMessageLengthExceeded`.
    static func root(_ bytes: [UInt8], _ name: String, limit: Int) throws(S3Error) -> XMLNode {
        guard bytes.count <= limit else {
            throw S3Error(.maxMessageLengthExceeded, details: [S3Error.Detail("MaxMessageLengthBytes", String(limit))])
        }
        // Shorter elements make no such document, but a tree many times as large as its text.
        guard bytes.count(where: { $0 == UInt8(ascii: "<") }) <= limit / 16 else { throw S3Error(.malformedXML) }
        // The reader takes no document type: entities that it could define might be as large as they like.
        guard !namesOtherCoding(bytes), let root = XMLNode.parse(bytes), root.name == name else {
            throw S3Error(.malformedXML)
        }
        return root
    }

    /// Whether the declaration, which stands first if there is one, has an encoding that is not UTF-8.
    private static func namesOtherCoding(_ bytes: [UInt8]) -> Bool {
        let head = String(decoding: bytes.prefix(200), as: UTF8.self).lowercased()
        guard head.contains("<?xml"), let declaration = head.split(separator: "?>").first else { return false }
        return declaration.contains("encoding") && !declaration.contains("utf-8")
    }
}

extension XMLNode {
    /// The text of the first element with this name, without white space around it; `nil` if there is none.
    func trimmed(_ name: String) -> String? {
        self[name].map { text in
            let isSpace: (UInt8) -> Bool = { $0 == 0x20 || (0x09...0x0D).contains($0) }
            var rest = Substring(text).utf8
            while let first = rest.first, isSpace(first) { rest = rest.dropFirst() }
            while let last = rest.last, isSpace(last) { rest = rest.dropLast() }
            return String(Substring(rest))
        }
    }

    /// The first element with this name.
    func first(_ name: String) -> XMLNode? { children.first { $0.name == name } }
}
