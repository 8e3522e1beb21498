internal import Foundation
internal import Signing
internal import UploadModel

/// The plaintext of a session token: the grant and the access key id, as JSON with the shortest possible names.
enum SessionToken {
    static func encode(_ grant: ObjectGrant, accessKeyID: String) -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .withoutEscapingSlashes
        // Strings and integers always encode.
        return Array((try? encoder.encode(Content(grant, accessKeyID: accessKeyID))) ?? Data())
    }

    /// `nil` if it is not such JSON, for example because a newer version encrypted it.
    static func decode(_ plain: [UInt8]) -> (grant: ObjectGrant, accessKeyID: String)? {
        guard let content = try? JSONDecoder().decode(Content.self, from: Data(plain)), let grant = content.grant else {
            return nil
        }
        return (grant, content.k)
    }

    static func wholeSeconds(_ date: Date) -> Date { Date(timeIntervalSince1970: Double(date.unixSeconds)) }

    /// `nil`, empty and `false` are omitted.
    private struct Content: Codable {
        /// Access key id.
        var k: String
        /// Id of the grant.
        var i: String
        var issuer: String?
        var subject: String?
        var dialect: String?
        var maximumBytes: Int64?
        var types: [String]?
        /// Where the storage keeps the upload.
        var place: String?
        /// Unix seconds.
        var expiry: Int64
        var once: Bool?
        var metadata: [String: String]?
        var bucket: String?
        /// Key or prefix.
        var key: String
        var isPrefix: Bool?
        var actions: UInt64
        var policies: [Policy]?
        /// Unix milliseconds; absent in tokens of earlier versions.
        var issuedAt: Int64?

        enum CodingKeys: String, CodingKey {
            case k, i
            case issuer = "r"
            case subject = "s"
            case dialect = "d"
            case maximumBytes = "m"
            case types = "t"
            case place = "l"
            case expiry = "e"
            case once = "o"
            case metadata = "x"
            case bucket = "b"
            case key = "p"
            case isPrefix = "w"
            case actions = "a"
            case policies = "n"
            case issuedAt = "j"
        }

        init(_ grant: ObjectGrant, accessKeyID: String) {
            let upload = grant.upload
            k = accessKeyID
            i = upload.id
            issuer = upload.issuer
            subject = upload.subject
            dialect = upload.dialect
            maximumBytes = upload.maximumBytes
            types = upload.contentTypes.isEmpty ? nil : upload.contentTypes
            place = upload.bucket
            expiry = upload.expiresAt.unixSeconds
            once = upload.isOneTime ? true : nil
            metadata = upload.metadata.isEmpty ? nil : upload.metadata
            bucket = grant.bucket
            switch grant.keys {
            case .only(let only): key = only
            case .within(let prefix):
                key = prefix.text
                isPrefix = true
            case .all:
                key = ""
                isPrefix = true
            }
            actions = bits(of: grant.actions)
            policies = grant.policies.isEmpty ? nil : grant.policies.map { Policy($0) }
            issuedAt = upload.issuedAt?.unixMilliseconds
        }

        var grant: ObjectGrant? {
            var policies: [SessionPolicy] = []
            for coded in self.policies ?? [] {
                guard let policy = coded.policy else { return nil }
                policies.append(policy)
            }
            // Earlier versions accepted any user name, and used the whole bucket if there was none.
            guard let actions = SessionToken.actions(of: actions), subject.map(SubjectText.isValid) ?? true else {
                return nil
            }
            return ObjectGrant(
                upload: Grant(
                    id: i,
                    issuer: issuer,
                    subject: subject,
                    dialect: dialect,
                    maximumBytes: maximumBytes,
                    contentTypes: types ?? [],
                    bucket: place,
                    expiresAt: Date(timeIntervalSince1970: Double(expiry)),
                    isOneTime: once ?? false,
                    metadata: metadata ?? [:],
                    issuedAt: issuedAt.map { Date(timeIntervalSince1970: Double($0) / 1000) }
                ),
                bucket: bucket,
                keys: isPrefix ?? false ? KeyPrefix(key).map { .within($0) } ?? .all : .only(key),
                actions: actions,
                policies: policies
            )
        }
    }

    private struct Policy: Codable {
        /// Name of the vendor.
        var d: String
        var s: [Statement]

        init(_ policy: SessionPolicy) {
            d = policy.vendor.storeName
            s = policy.statements.map { Statement($0) }
        }

        var policy: SessionPolicy? {
            guard let vendor = Vendor(storeName: d) else { return nil }
            var statements: [SessionPolicy.Statement] = []
            for coded in s {
                guard let statement = coded.statement else { return nil }
                statements.append(statement)
            }
            return SessionPolicy(vendor: vendor, statements: statements)
        }
    }

    private struct Statement: Codable {
        /// Whether it denies.
        var d: Bool?
        var a: UInt64
        var r: [String]
        var c: [Condition]?

        init(_ statement: SessionPolicy.Statement) {
            d = statement.effect == .deny ? true : nil
            a = bits(of: statement.actions)
            r = statement.resources.map(\.text)
            c = statement.conditions.isEmpty ? nil : statement.conditions.map { Condition($0) }
        }

        var statement: SessionPolicy.Statement? {
            var conditions: [PolicyCondition] = []
            for coded in c ?? [] {
                guard let condition = coded.condition else { return nil }
                conditions.append(condition)
            }
            guard let actions = SessionToken.actions(of: a) else { return nil }
            return SessionPolicy.Statement(
                effect: d ?? false ? .deny : .allow,
                actions: actions,
                resources: r.map { WildcardPattern($0) },
                conditions: conditions
            )
        }
    }

    private struct Condition: Codable {
        var k: Int
        var o: Int
        var t: [String]?
        var n: [Int64]?

        init(_ condition: PolicyCondition) {
            k = condition.key.rawValue
            o = condition.comparison.rawValue
            switch condition.values {
            case .texts(let patterns): t = patterns.map(\.text)
            case .numbers(let numbers): n = numbers
            }
        }

        var condition: PolicyCondition? {
            guard let key = PolicyCondition.Key(rawValue: k), let comparison = PolicyCondition.Comparison(rawValue: o)
            else { return nil }
            let values: PolicyCondition.Values
            switch (t, n) {
            case (let texts?, nil): values = .texts(texts.map { WildcardPattern($0) })
            case (nil, let numbers?): values = .numbers(numbers)
            default: return nil
            }
            return PolicyCondition(key: key, comparison: comparison, values: values)
        }
    }

    /// One bit per action, at its raw value.
    private static func bits(of actions: Set<ObjectAction>) -> UInt64 {
        actions.reduce(0) { $0 | 1 << UInt64($1.rawValue) }
    }

    /// `nil` if a bit is unknown: what a newer version denies must not become allowed.
    private static func actions(of bits: UInt64) -> Set<ObjectAction>? {
        let actions = Set(ObjectAction.allCases.filter { bits >> UInt64($0.rawValue) & 1 == 1 })
        return self.bits(of: actions) == bits ? actions : nil
    }
}
