package import Signing
package import UploadCore
internal import XMLText

/// The keys that a request deletes (`Delete`).
package struct S3Deletion: Sendable, Equatable {
    package struct Entry: Sendable, Equatable {
        package let key: String
        /// Condition on the object; `nil` for none.
        package let condition: ObjectCondition?
        /// Why it cannot be deleted by any caller.
        package let problem: S3Error?
    }

    /// Whether the response lists errors only.
    package let isQuiet: Bool
    /// 1 to 1000.
    package let entries: [Entry]

    /// - Parameter bytes: The document.
    /// - Throws: `MalformedXML`.
    package init(document bytes: [UInt8]) throws(S3Error) {
        let root = try S3Documents.root(bytes, "Delete", limit: S3Documents.Limit.deletion)
        var isQuiet = false
        var entries: [Entry] = []
        for node in root.children {
            switch node.name {
            case "Quiet": isQuiet = root.trimmed("Quiet")?.lowercased() == "true"
            case "Object":
                guard let key = node["Key"] else { throw S3Error(.malformedXML) }
                entries.append(Self.entry(node, key: key))
            default: throw S3Error(.malformedXML)
            }
        }
        guard (1...1000).contains(entries.count) else { throw S3Error(.malformedXML) }
        self.isQuiet = isQuiet
        self.entries = entries
    }

    private static func entry(_ node: XMLNode, key: String) -> Entry {
        do throws(S3Error) {
            if let version = node.trimmed("VersionId"), !version.isEmpty, version != "null" { throw S3Error.noVersions }
            if let name = ["LastModifiedTime", "Size"].first(where: { node[$0] != nil }) {
                // Ignoring the condition could delete an object that the client wants to keep.
                throw S3Error(.notImplemented, "Deletions have no condition \(name) here: leave it out.")
            }
            try S3Names.check(key: key)
            let condition = try node.trimmed("ETag").map { (text) throws(S3Error) in try ObjectCondition(deleting: text)
            }
            return Entry(key: key, condition: condition, problem: nil)
        } catch {
            return Entry(key: key, condition: nil, problem: error)
        }
    }
}

/// Outcome for one key in a request that deletes many.
package struct S3DeletionOutcome: Sendable {
    package let key: String
    package let error: S3Error?

    package init(key: String, error: S3Error? = nil) {
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
        _ outcomes: [S3DeletionOutcome],
        isQuiet: Bool,
        encodesURL: Bool = false,
        for vendor: Vendor = .aws
    ) -> [UInt8] {
        let text = S3KeyText(encodesURL: encodesURL)
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
