internal import Bytes
internal import HTTPWire
package import Signing
internal import XMLText

/// The tags of an object ("Categorizing your storage using tags", Amazon S3 User Guide).
package enum ObjectTagging {
    package static let maximumCount = 10

    /// Parses the tags of a document `Tagging`.
    ///
    /// - Throws: `MalformedXML`, `InvalidTag`; for too many tags of an OSS client `BadRequest`.
    package static func tags(
        document bytes: [UInt8],
        for vendor: Vendor = .aws
    ) throws(ObjectError) -> [String: String] {
        let root = try RequestDocuments.root(
            bytes,
            "Tagging",
            limit: RequestDocuments.Limit.tagging,
            nesting: ["TagSet", "Tag"],
            repeating: ["Tag"]
        )
        guard let set = root.first("TagSet"), root.children.count == 1 else { throw ObjectError(.malformedXML) }
        var pairs: [(String, String)] = []
        for tag in set.children {
            guard tag.name == "Tag", let key = tag["Key"], let value = tag["Value"], tag.children.count == 2 else {
                throw ObjectError(.malformedXML)
            }
            pairs.append((key, value))
        }
        return try checked(pairs, for: vendor) {
            ObjectError(.invalidTag, "Cannot provide multiple Tags with the same key")
        }
    }

    /// Parses the tags of the field `x-amz-tagging`, which is written like a query string.
    ///
    /// - Throws: `InvalidArgument`, also for a key that occurs twice; `InvalidTag`; for too many tags of an OSS client
    ///   `BadRequest`.
    static func tags(header text: String, for vendor: Vendor = .aws) throws(ObjectError) -> [String: String] {
        let query: QueryItems
        do throws(QueryItems.Failure) {
            query = try QueryItems(text)
        } catch {
            throw .argument("x-amz-tagging", text, "x-amz-tagging must be encoded like a query: \(error.reason).")
        }
        return try checked(query.items.map { ($0.name, $0.value) }, for: vendor) {
            .argument(
                "x-amz-tagging",
                text,
                "x-amz-tagging must be encoded like a query, without tag name duplicates."
            )
        }
    }

    private static func checked(
        _ pairs: [(String, String)],
        for vendor: Vendor,
        orRepeated repeated: () -> ObjectError
    ) throws(ObjectError) -> [String: String] {
        guard pairs.count <= maximumCount else {
            let code: ObjectErrorCode = vendor == .aliyun ? .badRequest : .invalidTag
            throw ObjectError(code, "Object tags cannot be greater than \(maximumCount)")
        }
        var tags: [String: String] = [:]
        for (key, value) in pairs {
            guard (1...128).contains(key.unicodeScalars.count), isText(key), !key.lowercasedASCII().hasPrefix("aws:")
            else {
                throw ObjectError(.invalidTag, "The TagKey you have provided is invalid")
            }
            guard value.unicodeScalars.count <= 256, isText(value) else {
                throw ObjectError(.invalidTag, "The TagValue you have provided is invalid")
            }
            guard tags.updateValue(value, forKey: key) == nil else { throw repeated() }
        }
        return tags
    }

    /// Letters, with their marks, digits, spaces and `+ - = . _ : / @`, as at all vendors ("Categorizing your storage
    /// using tags", Amazon S3 User Guide: "letters, spaces, and numbers representable in UTF-8").
    private static func isText(_ text: String) -> Bool {
        text.unicodeScalars.allSatisfy { scalar in
            guard !signs.contains(scalar) else { return true }
            return switch scalar.properties.generalCategory {
            case .uppercaseLetter, .lowercaseLetter, .titlecaseLetter, .modifierLetter, .otherLetter, .nonspacingMark,
                .spacingMark, .enclosingMark, .decimalNumber, .letterNumber, .otherNumber, .spaceSeparator:
                true
            default: false
            }
        }
    }

    private static let signs = Set("+-=._:/@".unicodeScalars)

    /// Writes a document `Tagging`, sorted by key.
    package static func document(_ tags: [String: String], for vendor: Vendor = .aws) -> [UInt8] {
        var document = XMLWriter("Tagging", vendor)
        document.element("TagSet") { set in
            for (key, value) in tags.sorted(by: { $0.key < $1.key }) {
                set.element("Tag") { tag in
                    tag.element("Key", key)
                    tag.element("Value", value)
                }
            }
        }
        return document.finished()
    }
}
