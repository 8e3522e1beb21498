internal import Signing

/// The syntax of a vendor's policies.
///
/// The following is understood; everything else is refused with its name:
///
/// - `Version` and `Statement`, one or a list; for AWS also `Id`, which has no effect.
/// - In a statement `Effect`, `Action`, `Resource` and `Condition`; for AWS also `Sid`, which has no effect. Not
///   `NotAction`, `NotResource` and `Principal`.
/// - `Action`: the names of `ActionNames`, with `*` and `?`.
/// - `Resource`: bucket, or bucket, `/` and key, with `*` and `?`, which also match slashes; no policy variables. Only
///   the syntax of regions and accounts is checked, because the bucket name is unambiguous.
/// - `Condition`: the keys in `PolicyCondition`, with the plain operators for numbers and strings.
struct PolicyGrammar: Sendable {
    let version: String
    let names: Names
    /// Elements without effect on what is allowed.
    let remarks: (document: Set<String>, statement: Set<String>)
    let effects: [String: SessionPolicy.Effect]
    let comparisons: [String: Comparison]
    /// In lower case.
    let conditionKeys: [String: PolicyCondition.Key]

    struct Names: Sendable {
        let version, statement, effect, action, resource, condition: String
    }

    struct Comparison: Sendable {
        let isNumeric: Bool
        let comparison: PolicyCondition.Comparison

        static func text(_ comparison: PolicyCondition.Comparison) -> Comparison {
            Comparison(isNumeric: false, comparison: comparison)
        }

        static func number(_ comparison: PolicyCondition.Comparison) -> Comparison {
            Comparison(isNumeric: true, comparison: comparison)
        }
    }

    static func of(_ vendor: Vendor) -> PolicyGrammar { grammars[vendor] }

    private static let grammars = PerVendor(aws: s3, aliyun: oss, tencent: cos)

    /// IAM user guide, "IAM JSON policy elements".
    private static let s3 = PolicyGrammar(
        version: "2012-10-17",
        names: capitalised,
        remarks: (["Id"], ["Sid"]),
        effects: ["Allow": .allow, "Deny": .deny],
        comparisons: camelCase,
        conditionKeys: ["s3:prefix": .prefix]
    )

    /// RAM user guide, "Policy structure and syntax".
    private static let oss = PolicyGrammar(
        version: "1",
        names: capitalised,
        remarks: ([], []),
        effects: ["Allow": .allow, "Deny": .deny],
        comparisons: camelCase,
        conditionKeys: ["oss:prefix": .prefix]
    )

    /// CAM, "Element reference" and "Conditions"; COS, "Condition keys".
    private static let cos = PolicyGrammar(
        version: "2.0",
        names: Names(
            version: "version",
            statement: "statement",
            effect: "effect",
            action: "action",
            resource: "resource",
            condition: "condition"
        ),
        remarks: ([], []),
        effects: ["allow": .allow, "deny": .deny],
        comparisons: [
            "string_equal": .text(.equal),
            "string_not_equal": .text(.notEqual),
            "string_like": .text(.like),
            "string_not_like": .text(.notLike),
            "numeric_equal": .number(.equal),
            "numeric_not_equal": .number(.notEqual),
            "numeric_less_than": .number(.less),
            "numeric_less_than_equal": .number(.lessOrEqual),
            "numeric_greater_than": .number(.greater),
            "numeric_greater_than_equal": .number(.greaterOrEqual),
        ],
        conditionKeys: [
            "cos:content-length": .contentLength, "cos:content-type": .contentType, "cos:prefix": .prefix,
        ]
    )

    private static let capitalised = Names(
        version: "Version",
        statement: "Statement",
        effect: "Effect",
        action: "Action",
        resource: "Resource",
        condition: "Condition"
    )

    private static let camelCase: [String: Comparison] = [
        "StringEquals": .text(.equal),
        "StringNotEquals": .text(.notEqual),
        "StringLike": .text(.like),
        "StringNotLike": .text(.notLike),
    ]
}
