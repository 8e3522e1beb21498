internal import Bytes
internal import Digests
package import Foundation
internal import Signing
internal import XMLText

/// The lifecycle rules of a bucket (`LifecycleConfiguration` of the three vendors).
///
/// Sources: "Lifecycle configuration elements" (Amazon S3 User Guide), "PutBucketLifecycle" (OSS API reference), "PUT Bucket
/// lifecycle" (COS API reference).
package struct BucketLifecycle: Sendable, Equatable {
    package struct Rule: Sendable, Equatable {
        package var id: String?
        package var isEnabled = true
        package var filter = Filter()
        /// When objects are removed; `nil` means never.
        package var expiration: Age?
        /// When unfinished multipart uploads are aborted; `nil` means never.
        package var abort: Age?
        /// Whether it changes storage classes, of which there is only one.
        package var hasTransitions = false
    }

    /// To which objects a rule applies: those for which everything holds.
    package struct Filter: Sendable, Equatable {
        /// Prefix of the key; empty for all.
        package var prefix = ""
        package var tags: [String: String] = [:]
        /// In bytes; not included.
        package var largerThan: Int64?
        package var smallerThan: Int64?
    }

    /// The age at which something ends.
    package enum Age: Sendable, Equatable {
        /// So many days after its creation, and then at the next midnight UTC.
        case days(Int)
        /// At this time, whatever its age.
        case date(Date)
        /// If it was created before this time.
        case createdBefore(Date)

        package func isOver(_ created: Date, at now: Date) -> Bool {
            switch self {
            case .days(let days):
                let due = created.timeIntervalSince1970 + Double(days) * 86_400
                return now.timeIntervalSince1970 >= (due / 86_400).rounded(.up) * 86_400
            case .date(let date): return now >= date
            case .createdBefore(let date): return created < date
            }
        }
    }

    package let rules: [Rule]
    private let root: XMLNode

    package static func == (left: BucketLifecycle, right: BucketLifecycle) -> Bool { left.rules == right.rules }

    /// Without versions of objects these never have anything to do.
    private static let versionActions: Set<ExactText> = ["NoncurrentVersionExpiration", "NoncurrentVersionTransition"]
    private static let transitions: Set<ExactText> = ["Transition", "NoncurrentVersionTransition"]
    /// And the name of the days: of S3 and COS, and of OSS.
    private static let aborts: [ExactText: String] = [
        "AbortIncompleteMultipartUpload": "DaysAfterInitiation", "AbortMultipartUpload": "Days",
    ]
    private static let containers: Set<ExactText> = ["Rule", "Filter", "And", "Tag", "Expiration", "Transition", "Not"]
    private static let others: Set<ExactText> = ["ID", "Status", "Prefix", "Filter", "Tag", "Expiration", "Transition"]

    /// - Parameter bytes: The document.
    /// - Throws: `MalformedXML`, `InvalidArgument`, `InvalidRequest`; `NotImplemented` for a filter that is not known.
    package init(document bytes: [UInt8]) throws(ObjectError) {
        let root = try RequestDocuments.root(
            bytes,
            "LifecycleConfiguration",
            limit: RequestDocuments.Limit.lifecycle,
            nesting: Self.containers.union(Self.versionActions).union(Self.aborts.keys),
            repeating: ["Rule", "Tag", "Transition", "NoncurrentVersionTransition"]
        )
        let nodes = root.all("Rule")
        guard (1...1000).contains(nodes.count), nodes.count == root.children.count else {
            throw ObjectError(.malformedXML)
        }
        var rules: [Rule] = []
        for node in nodes { rules.append(try Self.rule(node)) }
        self.root = root
        let ids = rules.compactMap { $0.id.map { ExactText($0) } }
        guard Set(ids).count == ids.count else {
            throw ObjectError(.invalidArgument, "Rule ID must be unique. Found same ID for more than one rule")
        }
        self.rules = rules
    }

    /// - Throws: `NotImplemented` if a rule asks for what does not happen here.
    func checkSupported() throws(ObjectError) {
        guard !rules.contains(where: \.hasTransitions) else {
            throw ObjectError(.notImplemented, "There is one storage class only: remove Transition from the rules.")
        }
    }

    private static func rule(_ node: XMLNode) throws(ObjectError) -> Rule {
        guard
            node.children.allSatisfy({
                others.contains($0.name) || versionActions.contains($0.name) || aborts[$0.name] != nil
            }),
            let status = node.trimmed("Status"), ["Enabled", "Disabled"].contains(status)
        else { throw ObjectError(.malformedXML) }
        var rule = Rule()
        rule.isEnabled = status == "Enabled"
        for (name, element) in aborts {
            guard let action = node.first(name.text) else { continue }
            guard rule.abort == nil else { throw ObjectError(.malformedXML) }
            rule.abort = try age(action, days: element)
            guard rule.abort != nil else { throw ObjectError(.malformedXML) }
        }
        // Without an age it removes markers of deletion, which are versions.
        if let expiration = node.first("Expiration") {
            rule.expiration = try age(expiration, days: "Days")
            guard rule.expiration != nil || expiration["ExpiredObjectDeleteMarker"] != nil else {
                throw ObjectError(.malformedXML)
            }
        }
        rule.hasTransitions = node.children.contains { $0.name == "Transition" }
        for action in node.children where versionActions.contains(action.name) || action.name == "Transition" {
            try checkDays(of: action)
        }
        guard node.children.contains(where: { !["ID", "Status", "Prefix", "Filter", "Tag"].contains($0.name) }) else {
            throw ObjectError(.invalidRequest, "At least one action needs to be specified in a rule.")
        }
        rule.id = node.trimmed("ID").flatMap { $0.isEmpty ? nil : $0 }
        guard rule.id?.hasScalars(atMost: 255) ?? true else {
            throw ObjectError(.invalidArgument, "ID length should not exceed allowed limit of 255")
        }
        rule.filter = try filter(of: node)
        return rule
    }

    private static func filter(of node: XMLNode) throws(ObjectError) -> Filter {
        var filter = Filter(prefix: node["Prefix"] ?? "")
        let outer = node.first("Filter")
        let all = outer?.first("And")
        // Nothing may stand beside what holds all conditions, and the prefix in one place only.
        guard all == nil || outer?.children.count == 1 else { throw ObjectError(.malformedXML) }
        let elements = (all ?? outer)?.children ?? []
        guard node["Prefix"] == nil || !elements.contains(where: { $0.name == "Prefix" }) else {
            throw ObjectError(.malformedXML)
        }
        for element in elements + node.all("Tag") {
            switch element.name {
            case "Prefix": filter.prefix = element.text
            case "Tag":
                guard let key = element["Key"], let value = element["Value"] else { throw ObjectError(.malformedXML) }
                guard filter.tags.updateValue(value, forKey: key) == nil else {
                    throw ObjectError(.invalidRequest, "Duplicate Tag Keys are not allowed.")
                }
            case "ObjectSizeGreaterThan": filter.largerThan = try size(element)
            case "ObjectSizeLessThan": filter.smallerThan = try size(element)
            default:
                let name = element.name.text.first(scalars: 64)
                throw ObjectError(.notImplemented, "Rules cannot be limited by \(name).")
            }
        }
        return filter
    }

    private static func size(_ element: XMLNode) throws(ObjectError) -> Int64 {
        guard let number = ObjectParameters.number(element.text) else { throw ObjectError(.malformedXML) }
        return Int64(number)
    }

    /// - Returns: `nil` if the action has none.
    private static func age(_ action: XMLNode, days name: String) throws(ObjectError) -> Age? {
        guard [name, "Date", "CreatedBeforeDate"].count(where: { action[$0] != nil }) <= 1 else {
            throw ObjectError(.malformedXML)
        }
        if let text = action.trimmed(name) {
            guard let days = ObjectParameters.number(text) else { throw ObjectError(.malformedXML) }
            guard days > 0 else {
                throw ObjectError(.invalidArgument, "'\(name)' for \(action.name) action must be a positive integer")
            }
            return .days(days)
        }
        for name in ["Date", "CreatedBeforeDate"] {
            guard let text = action.trimmed(name) else { continue }
            let format = Date.ISO8601FormatStyle(includingFractionalSeconds: text.contains("."))
            guard let date = try? Date(text, strategy: format) else { throw ObjectError(.malformedXML) }
            guard date.timeIntervalSince1970.truncatingRemainder(dividingBy: 86_400) == 0 else {
                throw ObjectError(.invalidArgument, "'\(name)' must be at midnight GMT")
            }
            return name == "Date" ? .date(date) : .createdBefore(date)
        }
        return nil
    }

    private static func checkDays(of action: XMLNode) throws(ObjectError) {
        // An object may change its class at once, but cannot expire on the day it is created.
        let least = transitions.contains(action.name) ? 0 : 1
        for element in action.children where ["Days", "NoncurrentDays"].contains(element.name) {
            guard let number = action.trimmed(element.name.text).flatMap({ ObjectParameters.number($0) }) else {
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

    /// The document to keep: the original if all rules have ids, otherwise a copy with the missing ids added.
    ///
    /// - Parameters:
    ///   - bytes: The document that these rules were parsed from.
    ///   - vendor: The vendor whose client sent it.
    /// - Returns: XML.
    func document(instead bytes: [UInt8], for vendor: Vendor) -> [UInt8] {
        guard rules.contains(where: { $0.id == nil }) else { return bytes }
        var document = XMLWriter(root.name.text, vendor)
        for (node, rule) in zip(root.children, rules) {
            document.element(node.name.text) { written in
                if rule.id == nil { written.element("ID", Hexadecimal.encode(SecureRandom.bytes(16))) }
                for child in node.children where rule.id != nil || child.name != "ID" { Self.copy(child, to: &written) }
            }
        }
        return document.finished()
    }

    /// Depth is bounded by the parser's limit.
    private static func copy(_ node: XMLNode, to document: inout XMLWriter) {
        document.element(node.name.text) { written in
            if node.children.isEmpty { written.text(node.text) }
            for child in node.children { copy(child, to: &written) }
        }
    }
}
