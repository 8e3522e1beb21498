internal import Bytes
internal import Digests
internal import Signing
internal import XMLText

/// The lifecycle rules of a bucket (`LifecycleConfiguration`), as far as they are applied; the document is kept
/// unchanged.
package struct BucketLifecycle: Sendable, Equatable {
    package struct Rule: Sendable, Equatable {
        package let id: String?
        package let isEnabled: Bool
        /// Prefix of the keys that it applies to; empty for all.
        package let prefix: String
        /// Days after which an unfinished multipart upload is aborted; `nil` means never.
        package let abortsAfterDays: Int?
        /// Whether it has other actions, or further filters besides the prefix.
        package let hasMore: Bool
    }

    package let rules: [Rule]
    private let root: XMLNode

    package static func == (left: BucketLifecycle, right: BucketLifecycle) -> Bool { left.rules == right.rules }

    private static let otherActions: Set<String> = [
        "Expiration", "Transition", "NoncurrentVersionExpiration", "NoncurrentVersionTransition",
    ]

    /// - Parameter bytes: The document.
    /// - Throws: `MalformedXML`, `InvalidArgument`.
    package init(document bytes: [UInt8]) throws(ObjectError) {
        let root = try RequestDocuments.root(bytes, "LifecycleConfiguration", limit: RequestDocuments.Limit.lifecycle)
        let nodes = root.all("Rule")
        guard (1...1000).contains(nodes.count), nodes.count == root.children.count else {
            throw ObjectError(.malformedXML)
        }
        var rules: [Rule] = []
        for node in nodes { rules.append(try Self.rule(node)) }
        self.root = root
        let ids = rules.compactMap(\.id)
        guard Set(ids).count == ids.count else {
            throw ObjectError(.invalidArgument, "Rule ID must be unique. Found same ID for more than one rule")
        }
        self.rules = rules
    }

    private static func rule(_ node: XMLNode) throws(ObjectError) -> Rule {
        let known: Set<String> = ["ID", "Status", "Prefix", "Filter", "AbortIncompleteMultipartUpload"]
        guard node.children.allSatisfy({ known.contains($0.name) || otherActions.contains($0.name) }),
            let status = node.trimmed("Status"), ["Enabled", "Disabled"].contains(status)
        else { throw ObjectError(.malformedXML) }
        let hasOthers = node.children.contains { otherActions.contains($0.name) }
        var days: Int?
        if let abort = node.first("AbortIncompleteMultipartUpload") {
            guard let text = abort.trimmed("DaysAfterInitiation"), let number = ObjectParameters.number(text) else {
                throw ObjectError(.malformedXML)
            }
            guard number > 0 else {
                throw ObjectError(
                    .invalidArgument,
                    "'DaysAfterInitiation' for AbortIncompleteMultipartUpload action must be a positive integer"
                )
            }
            days = number
        }
        guard days != nil || hasOthers else {
            throw ObjectError(.invalidRequest, "At least one action needs to be specified in a rule.")
        }
        try checkDays(of: node)
        let id = node.trimmed("ID").flatMap { $0.isEmpty ? nil : $0 }
        guard (id?.unicodeScalars.count ?? 0) <= 255 else {
            throw ObjectError(.invalidArgument, "ID length should not exceed allowed limit of 255")
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

    /// Validates the days of other actions.
    ///
    /// They are not applied, only returned again ("Lifecycle configuration elements").
    private static func checkDays(of node: XMLNode) throws(ObjectError) {
        for action in node.children where otherActions.contains(action.name) {
            // An object may change its class at once, but cannot expire on the day it is created.
            let least = action.name.hasSuffix("Transition") ? 0 : 1
            for element in action.children where ["Days", "NoncurrentDays"].contains(element.name) {
                guard let number = action.trimmed(element.name).flatMap({ ObjectParameters.number($0) }) else {
                    throw ObjectError(.malformedXML)
                }
                guard number >= least else {
                    throw ObjectError(
                        .invalidArgument,
                        "'\(element.name)' for \(action.name) action must be a \(least == 0 ? "nonnegative" : "positive") integer"
                    )
                }
            }
        }
    }

    /// The document to keep: the original if all rules have ids, otherwise a copy with the missing ids added.
    ///
    /// - Parameters:
    ///   - bytes: The document that these rules were parsed from.
    ///   - vendor: The vendor whose client sent it.
    /// - Returns: XML.
    func document(instead bytes: [UInt8], for vendor: Vendor) -> [UInt8] {
        guard rules.contains(where: { $0.id == nil }) else { return bytes }
        var document = XMLWriter(root.name, vendor)
        for (node, rule) in zip(root.children, rules) {
            document.element(node.name) { written in
                if rule.id == nil { written.element("ID", Hexadecimal.encode(SecureRandom.bytes(16))) }
                for child in node.children where rule.id != nil || child.name != "ID" { Self.copy(child, to: &written) }
            }
        }
        return document.finished()
    }

    /// Depth is bounded by the parser's limit.
    private static func copy(_ node: XMLNode, to document: inout XMLWriter) {
        document.element(node.name) { written in
            if node.children.isEmpty { written.text(node.text) }
            for child in node.children { copy(child, to: &written) }
        }
    }
}
