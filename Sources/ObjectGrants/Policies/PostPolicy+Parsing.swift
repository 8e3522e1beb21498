internal import Bytes
internal import Foundation
package import Signing

extension PostPolicy {
    /// Maximum size; longer policies are refused unread.
    static let maximumByteCount = 65_536

    /// The policy in the field `policy` of a form.
    ///
    /// - Parameters:
    ///   - base64: The value of the field; standard alphabet, padded.
    ///   - vendor: The vendor of the form.
    /// - Throws: `.malformed`, also for anything not understood: nothing is ignored.
    package init(base64: String, vendor: Vendor) throws(PostPolicyProblem) {
        guard base64.utf8.count <= Self.maximumByteCount else {
            throw .malformed("The policy must have at most \(Self.maximumByteCount) bytes.")
        }
        guard let json = Base64.decode(base64) else { throw .malformed("The policy must be in Base64.") }
        var members: JSONMembers
        do throws(PolicyDocument.Failure) {
            members = try PolicyDocument.members(of: json)
        } catch {
            throw .malformed("The policy \(error.reason).")
        }
        guard case .string(let text)? = members.removeValue(forKey: "expiration"),
            let expiresAt = try? Date(
                text,
                strategy: Date.ISO8601FormatStyle(includingFractionalSeconds: text.contains("."))
            )
        else { throw .malformed("`expiration` must be a time such as \"2026-01-02T03:04:05.000Z\".") }
        guard case .array(let elements)? = members.removeValue(forKey: "conditions") else {
            throw .malformed("`conditions` must be a list.")
        }
        if let name = members.keys.min() { throw .malformed("`\(name)` is an element that a policy cannot have.") }
        var rules: [Rule] = []
        var lengths: ClosedRange<Int64>?
        for (index, element) in elements.enumerated() {
            let problem = PostPolicyProblem.malformed("`conditions[\(index)]` is not a known condition.")
            switch element {
            case .object(let members):
                guard !members.isEmpty else { throw problem }
                for (name, value) in members.sorted(by: { $0.key < $1.key }) {
                    guard case .string(let text) = value, !name.isEmpty else { throw problem }
                    rules.append(Self.rule(name, .equal(text)))
                }
            case .array(let parts):
                if case .string(let name)? = parts.first, name.lowercasedASCII() == "content-length-range" {
                    guard parts.count == 3, let range = Self.range(parts[1], parts[2]) else { throw problem }
                    // All conditions must be met, so the intersection of the ranges is allowed.
                    let before = lengths ?? range
                    guard before.overlaps(range) else {
                        throw .malformed("`conditions[\(index)]` allows no size that the others allow.")
                    }
                    lengths = before.clamped(to: range)
                } else if let rule = Self.rule(parts, vendor: vendor) {
                    rules.append(rule)
                } else {
                    throw problem
                }
            default: throw problem
            }
        }
        self.init(expiresAt: expiresAt, contentLengths: lengths, rules: rules, vendor: vendor)
    }

    /// `["eq", "$field", "value"]` and the like.
    private static func rule(_ parts: [JSONValue], vendor: Vendor) -> Rule? {
        guard parts.count == 3, case .string(let operation) = parts[0], case .string(let field) = parts[1],
            field.count > 1, field.hasPrefix("$")
        else { return nil }
        let name = String(field.dropFirst())
        switch (operation.lowercasedASCII(), parts[2]) {
        case ("eq", .string(let value)): return rule(name, .equal(value))
        case ("starts-with", .string(let value)): return rule(name, .startsWith(value))
        case ("in", .array) where vendor == .aliyun: return parts[2].texts.map { rule(name, .oneOf($0)) }
        case ("not-in", .array) where vendor == .aliyun: return parts[2].texts.map { rule(name, .noneOf($0)) }
        default: return nil
        }
    }

    private static func rule(_ name: String, _ condition: Condition) -> Rule {
        let field = name.lowercasedASCII()
        let (operation, values, isList): (String, [String], Bool) =
            switch condition {
            case .equal(let value): ("eq", [value], false)
            case .startsWith(let value): ("starts-with", [value], false)
            case .oneOf(let values): ("in", values, true)
            case .noneOf(let values): ("not-in", values, true)
            }
        // A session token is a credential and must not appear in messages.
        let shown = field.hasSuffix("security-token") ? ["…"] : values
        let quoted = shown.map { "\"\($0)\"" }.joined(separator: ", ")
        return Rule(
            field: field,
            condition: condition,
            text: "[\"\(operation)\", \"$\(name)\", \(isList ? "[\(quoted)]" : quoted)]"
        )
    }

    private static func range(_ first: JSONValue, _ second: JSONValue) -> ClosedRange<Int64>? {
        guard let minimum = number(first), let maximum = number(second), minimum <= maximum else { return nil }
        return minimum...maximum
    }

    /// A number, or a string with one, as some libraries write it.
    private static func number(_ value: JSONValue) -> Int64? {
        switch value {
        case .integer(let number): number >= 0 ? number : nil
        case .string(let text): Int64(text).flatMap { $0 >= 0 && String($0) == text ? $0 : nil }
        default: nil
        }
    }
}
