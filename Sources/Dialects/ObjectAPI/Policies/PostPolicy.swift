internal import Bytes
package import Foundation

/// The policy of an upload by a form, which whoever signed it laid down.
///
/// Amazon S3 API reference, "POST Policy" (Browser-Based Uploads Using POST); OSS, "PostObject", appendix "Policy"; COS, "POST
/// Object", "Policy". A text in JSON, in Base64:
/// `{"expiration":"2026-01-02T04:04:05Z","conditions":[{"bucket":"b"},["starts-with","$key","a/"],["content-length-range",0,9]]}`.
package struct PostPolicy: Sendable, Equatable {
    enum Condition: Sendable, Equatable {
        case equal(String)
        case startsWith(String)
        /// OSS only.
        case oneOf([String])
        /// OSS only.
        case noneOf([String])
    }

    /// A condition for one field.
    struct Rule: Sendable, Equatable {
        /// In lower case.
        let field: String
        let condition: Condition
        /// As it is to be shown.
        let text: String
    }

    package let expiresAt: Date
    /// Bytes that the file may have; `nil` for any number.
    package let contentLengths: ClosedRange<Int64>?
    let rules: [Rule]
    private let dialect: ObjectDialect

    init(expiresAt: Date, contentLengths: ClosedRange<Int64>?, rules: [Rule], dialect: ObjectDialect) {
        self.expiresAt = expiresAt
        self.contentLengths = contentLengths
        self.rules = rules
        self.dialect = dialect
    }

    /// Compares the fields of a form, which are all there before the file, with the policy.
    ///
    /// - Parameters:
    ///   - form: The form that the policy came with.
    ///   - bucket: That the request is for.
    ///   - now: The time of the request.
    /// - Throws: `.expired`, `.conditionFailed`, `.fieldNotCovered`.
    package func check(_ form: PostForm, bucket: String, at now: Date) throws(PostPolicyProblem) {
        guard now < expiresAt else { throw .expired }
        for rule in rules where !isMet(rule, by: form, bucket: bucket) { throw .conditionFailed(rule.text) }
        let covered = Set(rules.map(\.field))
        for name in demanded where !covered.contains(name) { throw .fieldNotCovered(name) }
        for field in form.fields {
            let name = field.name.lowercased()
            guard covered.contains(name) || isExempt(name, in: form) else { throw .fieldNotCovered(field.name) }
        }
    }

    /// Whether the policy is about a field, whatever it says of it; upper and lower case make no difference.
    func hasCondition(for field: String) -> Bool {
        let field = field.lowercased()
        return rules.contains { $0.field == field }
    }

    /// Compares the size of the file with the policy.
    ///
    /// - Parameters:
    ///   - length: Bytes, all of them or those that came so far.
    ///   - isComplete: Whether there are no more; before that it may only be too large.
    /// - Throws: `.tooSmall`, `.tooLarge`.
    package func check(length: Int64, isComplete: Bool) throws(PostPolicyProblem) {
        guard let contentLengths else { return }
        if length > contentLengths.upperBound { throw .tooLarge(maximum: contentLengths.upperBound) }
        if isComplete, length < contentLengths.lowerBound { throw .tooSmall(minimum: contentLengths.lowerBound) }
    }

    private func isMet(_ rule: Rule, by form: PostForm, bucket: String) -> Bool {
        let value: String
        switch rule.field {
        case "bucket": value = bucket
        // Where both are there, it is the other one that counts for OSS.
        case "q-sign-time" where dialect == .cos: value = form["q-key-time"] ?? ""
        case "content-type" where dialect == .oss: value = form["x-oss-content-type"] ?? form["content-type"] ?? ""
        default: value = form[rule.field] ?? ""
        }
        switch rule.condition {
        case .equal(let expected): return value.utf8.elementsEqual(expected.utf8)
        case .startsWith(let prefix):
            // For S3, a list of media types must begin so in each of its elements.
            let isList = dialect == .s3 && rule.field == "content-type"
            let elements = isList ? value.split(separator: ",", omittingEmptySubsequences: false) : [Substring(value)]
            return elements.allSatisfy { element in
                let element = isList ? element.drop { $0 == " " } : element
                return element.utf8.starts(with: prefix.utf8)
            }
        case .oneOf(let allowed): return allowed.contains { $0.utf8.elementsEqual(value.utf8) }
        case .noneOf(let forbidden): return !forbidden.contains { $0.utf8.elementsEqual(value.utf8) }
        }
    }

    /// Fields that a policy must be about.
    ///
    /// Amazon takes the bucket for a field of each form: a policy that does not name it would be good for all buckets.
    private var demanded: [String] {
        switch dialect {
        case .s3: ["bucket"]
        case .oss: []
        case .cos: ["q-sign-algorithm", "q-ak", "q-sign-time"]
        }
    }

    /// Whether a field may be there of which the policy says nothing.
    ///
    /// S3 wants every field in the policy, except those that can not be and `x-ignore-…`. OSS looks at what the policy names
    /// only, but in its newer form wants the fields of the signature there; COS wants these, too.
    private func isExempt(_ name: String, in form: PostForm) -> Bool {
        switch dialect {
        case .cos: return true
        case .s3:
            let exempt = ["policy", "x-amz-signature", "file", "awsaccesskeyid", "signature"]
            return exempt.contains(name) || name.hasPrefix("x-ignore-")
        case .oss:
            guard form["x-oss-signature-version"] != nil else { return true }
            let signed = ["x-oss-signature-version", "x-oss-credential", "x-oss-date", "x-oss-security-token"]
            return !signed.contains(name)
        }
    }
}
