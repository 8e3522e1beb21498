internal import Bytes
internal import Digests
internal import XMLText

/// The lifecycle rules of a bucket (`LifecycleConfiguration`), as far as they are looked at; the document is kept as it came.
package struct S3Lifecycle: Sendable, Equatable {
    package struct Rule: Sendable, Equatable {
        package let id: String?
        package let isEnabled: Bool
        /// Of the keys that it is for; empty for all.
        package let prefix: String
        /// Days after which an unfinished multipart upload is aborted; `nil` for never.
        package let abortsAfterDays: Int?
        /// Whether it does anything else, or is for less than all keys with the prefix.
        package let hasMore: Bool
    }

    package let rules: [Rule]
    private let root: XMLNode

    package static func == (left: S3Lifecycle, right: S3Lifecycle) -> Bool { left.rules == right.rules }

    private static let otherActions: Set<String> = [
        "Expiration", "Transition", "NoncurrentVersionExpiration", "NoncurrentVersionTransition",
    ]

    /// - Parameter bytes: The document.
    /// - Throws: `MalformedXML`, `InvalidArgument`.
    package init(document bytes: [UInt8]) throws(S3Error) {
        let root = try S3Documents.root(bytes, "LifecycleConfiguration", limit: S3Documents.Limit.lifecycle)
        let nodes = root.all("Rule")
        guard (1...1000).contains(nodes.count), nodes.count == root.children.count else { throw S3Error(.malformedXML) }
        var rules: [Rule] = []
        for node in nodes { rules.append(try Self.rule(node)) }
        self.root = root
        let ids = rules.compactMap(\.id)
        guard Set(ids).count == ids.count else {
            throw S3Error(.invalidArgument, "Rule ID must be unique. Found same ID for more than one rule")
        }
        self.rules = rules
    }

    private static func rule(_ node: XMLNode) throws(S3Error) -> Rule {
        let known: Set<String> = ["ID", "Status", "Prefix", "Filter", "AbortIncompleteMultipartUpload"]
        guard node.children.allSatisfy({ known.contains($0.name) || otherActions.contains($0.name) }),
            let status = node.trimmed("Status"), ["Enabled", "Disabled"].contains(status)
        else { throw S3Error(.malformedXML) }
        let hasOthers = node.children.contains { otherActions.contains($0.name) }
        var days: Int?
        if let abort = node.first("AbortIncompleteMultipartUpload") {
            guard let text = abort.trimmed("DaysAfterInitiation"), let number = S3Parameters.number(text) else {
                throw S3Error(.malformedXML)
            }
            guard number > 0 else {
                throw S3Error(
                    .invalidArgument,
                    "'DaysAfterInitiation' for AbortIncompleteMultipartUpload action must be a positive integer"
                )
            }
            days = number
        }
        guard days != nil || hasOthers else {
            throw S3Error(.invalidRequest, "At least one action needs to be specified in a rule.")
        }
        try checkDays(of: node)
        let id = node.trimmed("ID").flatMap { $0.isEmpty ? nil : $0 }
        guard (id?.unicodeScalars.count ?? 0) <= 255 else {
            throw S3Error(.invalidArgument, "ID length should not exceed allowed limit of 255")
        }
        let filter = node.first("Filter")
        let narrowed = filter?.first("And") ?? filter
        return Rule(
            id: id,
            isEnabled: status == "Enabled",
            prefix: narrowed?["Prefix"] ?? node["Prefix"] ?? "",
            abortsAfterDays: days,
            hasMore: hasOthers || narrowed?.children.contains { $0.name != "Prefix" } ?? false
        )
    }

    /// Days of the other actions, which are not acted upon, but are told again ("Lifecycle configuration elements").
    private static func checkDays(of node: XMLNode) throws(S3Error) {
        for action in node.children where otherActions.contains(action.name) {
            // An object may change its class at once; it does not expire on the day on which it is made.
            let least = action.name.hasSuffix("Transition") ? 0 : 1
            for element in action.children where ["Days", "NoncurrentDays"].contains(element.name) {
                guard let number = action.trimmed(element.name).flatMap({ S3Parameters.number($0) }) else {
                    throw S3Error(.malformedXML)
                }
                guard number >= least else {
                    throw S3Error(
                        .invalidArgument,
                        "'\(element.name)' for \(action.name) action must be a \(least == 0 ? "nonnegative" : "positive") integer"
                    )
                }
            }
        }
    }

    /// The document to keep: the one that came if all rules have ids, otherwise one in which those have one that had none.
    ///
    /// - Parameters:
    ///   - bytes: That it was made of.
    ///   - dialect: Whose client has sent it.
    /// - Returns: XML.
    func document(instead bytes: [UInt8], for dialect: ObjectDialect) -> [UInt8] {
        guard rules.contains(where: { $0.id == nil }) else { return bytes }
        var document = XMLWriter(root.name, dialect)
        for (node, rule) in zip(root.children, rules) {
            document.element(node.name) { written in
                if rule.id == nil { written.element("ID", Hexadecimal.encode(SecureRandom.bytes(16))) }
                for child in node.children where rule.id != nil || child.name != "ID" { Self.copy(child, to: &written) }
            }
        }
        return document.finished()
    }

    /// Not deeper than documents may be.
    private static func copy(_ node: XMLNode, to document: inout XMLWriter) {
        document.element(node.name) { written in
            if node.children.isEmpty { written.text(node.text) }
            for child in node.children { copy(child, to: &written) }
        }
    }
}
