internal import Bytes
internal import Foundation
package import Signing
internal import UploadModel

extension ObjectGrant {
    /// Maximum length that AWS and Alibaba Cloud accept ("AssumeRole" of both), in characters.
    private static let maximumPolicyLength = 2048

    /// The grant as a session policy for the real cloud; it allows nothing that the grant does not.
    ///
    /// It names only actions that the vendor can allow separately: where HEAD requires the same right as reading, an
    /// upload gets neither. Listings are limited to the prefix; if the vendor cannot limit them and the prefix is not
    /// empty, they are omitted.
    ///
    /// - Parameters:
    ///   - vendor: The vendor of the policy; see `PolicyGrammar`.
    ///   - region: The region of the bucket.
    /// - Returns: JSON in ASCII.
    /// - Throws: Everything in the grant that the policy cannot express and that would be lost otherwise.
    package func sessionPolicy(for vendor: Vendor, region: String) throws(InexpressibleGrant) -> String {
        let policy = document(for: vendor, region: region)
        var problems = problems(for: vendor)
        if problems.isEmpty, vendor != .tencent, policy.utf8.count > Self.maximumPolicyLength {
            let message =
                "makes a session policy of \(policy.utf8.count) characters, more than the \(Self.maximumPolicyLength) that "
                + "the cloud accepts; shorten it"
            problems.append(InexpressibleGrant.Problem(field: keyField, message: message))
        }
        guard problems.isEmpty else { throw InexpressibleGrant(problems: problems) }
        return policy
    }

    // MARK: What cannot be expressed

    private func problems(for vendor: Vendor) -> [InexpressibleGrant.Problem] {
        var problems: [InexpressibleGrant.Problem] = []
        func add(_ isWrong: Bool, _ field: String, _ message: String) {
            if isWrong { problems.append(InexpressibleGrant.Problem(field: field, message: message)) }
        }
        let without = "must not be there in direct mode: the cloud's session policies cannot express it"
        add(upload.maximumBytes != nil, "maxBytes", without + "; a presigned form can")
        add(upload.isOneTime, "oneTime", without)
        add(!upload.metadata.isEmpty, "metadata", without)
        add(
            !upload.contentTypes.isEmpty && vendor != .tencent,
            "contentTypes",
            without + "; a presigned URL or form can"
        )
        add(
            vendor == .tencent
                && upload.contentTypes.contains { Self.hasPattern($0.hasSuffix("/*") ? $0.dropLast(2) : $0[...]) },
            "contentTypes",
            "must have * only at the end, as in video/*, in direct mode: it stands for other characters in session policies"
        )
        add(
            Self.hasPattern(keyText[...]),
            keyField,
            "must not contain *, ? or ${ in direct mode: they stand for other characters in session policies"
        )
        add(bucket == nil, "bucket", "is required in direct mode")
        add(
            vendor == .tencent && bucket.map { Self.accountID(of: $0) == nil } ?? false,
            "bucket",
            "must end with a hyphen and the app id of the account, as names of buckets of COS do"
        )
        add(!policies.isEmpty, "policy", without)
        return problems
    }

    /// By bytes, because in a `String` a combining mark merges with the preceding character.
    private static func hasPattern(_ text: Substring) -> Bool {
        let bytes = Array(text.utf8)
        return bytes.contains(UInt8(ascii: "*")) || bytes.contains(UInt8(ascii: "?"))
            || zip(bytes, bytes.dropFirst()).contains { $0 == UInt8(ascii: "$") && $1 == UInt8(ascii: "{") }
    }

    private var isPrefix: Bool {
        if case .only = keys { false } else { true }
    }

    private var keyField: String {
        isPrefix ? "keyPrefix" : "key"
    }

    private var keyText: String {
        switch keys {
        case .only(let key): key
        case .within(let prefix): prefix.text
        case .all: ""
        }
    }

    /// The app id at the end of a COS bucket name: `media-1250000000`.
    private static func accountID(of bucket: String) -> String? {
        guard let hyphen = bucket.lastIndex(of: "-") else { return nil }
        let digits = bucket[bucket.index(after: hyphen)...]
        guard !digits.isEmpty, digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        return String(digits)
    }

    // MARK: The document

    private struct Statement {
        var actions: [String]
        var resource: String
        /// Operator, condition key, and alternative values.
        var condition: (operator: String, key: String, values: [String])?
    }

    private func document(for vendor: Vendor, region: String) -> String {
        let grammar = PolicyGrammar.of(vendor)
        let names = grammar.names
        let allow = grammar.effects.first { $0.value == .allow }?.key ?? ""
        let statements = statements(for: vendor, region: region).map { statement in
            var members: JSONMembers = [
                names.effect: .string(allow),
                names.action: .array(statement.actions.map { .string($0) }),
                names.resource: .array([.string(statement.resource)]),
            ]
            if let condition = statement.condition {
                let values = JSONValue.array(condition.values.map { .string($0) })
                members[names.condition] = .object([condition.operator: .object([condition.key: values])])
            }
            return JSONValue.object(members)
        }
        return Self.ascii(.object([names.version: .string(grammar.version), names.statement: .array(statements)]))
    }

    private func statements(for vendor: Vendor, region: String) -> [Statement] {
        let bucket = bucket ?? ""
        let pattern = isPrefix ? keyText + "*" : keyText
        let isWholeBucket = isPrefix && keyText.isEmpty
        let named = ActionNames.names(within: actions, in: vendor)
        let root: String
        switch vendor {
        case .aws: root = "arn:\(Self.partition(of: region)):s3:::\(bucket)"
        case .aliyun: root = "acs:oss:*:*:\(bucket)"
        case .tencent: root = "qcs::cos:\(region):uid/\(Self.accountID(of: bucket) ?? ""):\(bucket)"
        }
        func statement(
            _ resource: String,
            _ condition: (operator: String, key: String, values: [String])? = nil,
            _ isMeant: (Set<ObjectAction>) -> Bool
        ) -> Statement? {
            let actions = named.filter { isMeant($0.actions) }.map(\.name)
            return actions.isEmpty ? nil : Statement(actions: actions, resource: resource, condition: condition)
        }
        let objects = "\(root)/\(pattern)"
        var statements: [Statement?] = []
        if vendor == .tencent {
            let types = upload.contentTypes
            // The resource of a listing is the requested prefix.
            func isPlain(_ actions: Set<ObjectAction>) -> Bool {
                if actions.contains(.listObjects) { return isPrefix }
                return actions.contains(.listMultipartUploads) || !actions.contains { $0.isForBucket }
            }
            func isTyped(_ actions: Set<ObjectAction>) -> Bool {
                !types.isEmpty && actions.contains { $0.bringsContentType }
            }
            statements.append(statement(objects) { isPlain($0) && !isTyped($0) })
            statements.append(
                statement(objects, (operator: "string_like", key: "cos:content-type", values: types)) { isTyped($0) }
            )
        } else {
            statements.append(statement(objects) { !$0.contains { $0.isForBucket } })
            statements.append(
                statement(root) { actions in
                    actions == [.getBucketLocation] || isWholeBucket && actions.contains { $0.isListing }
                }
            )
            if isPrefix, !isWholeBucket {
                let key = vendor == .aws ? "s3:prefix" : "oss:Prefix"
                statements.append(
                    statement(root, (operator: "StringLike", key: key, values: [pattern])) {
                        $0.contains(.listObjects)
                    }
                )
            }
        }
        return statements.compactMap { $0 }
    }

    private static func partition(of region: String) -> String {
        region.hasPrefix("cn-") ? "aws-cn" : region.hasPrefix("us-gov-") ? "aws-us-gov" : "aws"
    }

    /// JSON with all non-ASCII characters escaped, because AWS rejects characters beyond U+00FF.
    private static func ascii(_ value: JSONValue) -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        // Strings always encode.
        let json = String(decoding: (try? encoder.encode(value)) ?? Data(), as: UTF8.self)
        var text = ""
        for unit in json.utf16 {
            if unit < 0x7F {
                text.unicodeScalars.append(Unicode.Scalar(UInt8(unit)))
            } else {
                let digits = String(unit, radix: 16)
                text += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            }
        }
        return text
    }
}
