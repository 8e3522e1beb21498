internal import Bytes
package import Signing
package import UploadModel
internal import XMLText

/// The keys that a request deletes (`Delete`).
package struct ObjectDeletion: Sendable, Equatable {
    package struct Entry: Sendable, Equatable {
        package let key: String
        /// Condition on the object; `nil` for none.
        package let condition: ObjectCondition?
        /// Why it cannot be deleted by any caller.
        package let problem: ObjectError?
    }

    /// Whether the response lists errors only.
    package let isQuiet: Bool
    /// 1 to 1000.
    package let entries: [Entry]

    /// - Parameter bytes: The document.
    /// - Throws: `MalformedXML`.
    package init(document bytes: [UInt8]) throws(ObjectError) {
        let root = try RequestDocuments.root(
            bytes,
            "Delete",
            limit: RequestDocuments.Limit.deletion,
            nesting: ["Object"],
            repeating: ["Object"]
        )
        var isQuiet = false
        var entries: [Entry] = []
        for node in root.children {
            switch node.name {
            case "Quiet": isQuiet = root.trimmed("Quiet")?.lowercasedASCII() == "true"
            case "Object":
                // An element that is not known could be a condition.
                guard let key = node["Key"], node.children.allSatisfy({ Self.members.contains($0.name) }) else {
                    throw ObjectError(.malformedXML)
                }
                entries.append(Self.entry(node, key: key))
            default: throw ObjectError(.malformedXML)
            }
        }
        guard (1...1000).contains(entries.count) else { throw ObjectError(.malformedXML) }
        self.isQuiet = isQuiet
        self.entries = entries
    }

    private static let members: Set<ExactText> = ["Key", "VersionId", "ETag", "LastModifiedTime", "Size"]

    private static func entry(_ node: XMLNode, key: String) -> Entry {
        do throws(ObjectError) {
            if let version = node.trimmed("VersionId"), !version.isEmpty, version != "null" {
                throw ObjectError.noVersions
            }
            if let name = ["LastModifiedTime", "Size"].first(where: { node[$0] != nil }) {
                // Ignoring the condition could delete an object that the client wants to keep.
                throw ObjectError(.notImplemented, "Deletions do not support the condition \(name): leave it out.")
            }
            try S3Names.check(key: key)
            let condition = try node.trimmed("ETag").map { (text) throws(ObjectError) in
                try ObjectCondition(deleting: text)
            }
            return Entry(key: key, condition: condition, problem: nil)
        } catch {
            return Entry(key: key, condition: nil, problem: error)
        }
    }
}

/// Outcome for one key in a request that deletes many.
package struct DeletionOutcome: Sendable {
    package let key: String
    package let error: ObjectError?

    package init(key: String, error: ObjectError? = nil) {
        self.key = key
        self.error = error
    }

    /// A document `DeleteResult`.
    ///
    /// - Parameters:
    ///   - outcomes: The outcomes of all keys.
    ///   - isQuiet: Whether to list errors only.
    ///   - encodesURL: Whether keys are URL-encoded, as OSS clients request ("DeleteMultipleObjects", OSS
    ///     documentation).
    ///   - vendor: The vendor whose client reads it.
    /// - Returns: XML.
    package static func document(
        _ outcomes: [DeletionOutcome],
        isQuiet: Bool,
        encodesURL: Bool = false,
        for vendor: Vendor = .aws
    ) -> [UInt8] {
        let text = KeyText(encodesURL: encodesURL)
        var document = XMLWriter("DeleteResult", vendor)
        if encodesURL { document.element("EncodingType", "url") }
        for outcome in outcomes {
            if let error = outcome.error {
                document.element("Error") { node in
                    node.element("Key", text(outcome.key))
                    node.element("Code", error.codeText(vendor))
                    node.element("Message", error.message)
                }
            } else if !isQuiet {
                document.element("Deleted") { $0.element("Key", text(outcome.key)) }
            }
        }
        return document.finished()
    }
}
