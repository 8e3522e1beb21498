internal import Bytes
package import Foundation
internal import Signing

/// The signed policy of a form upload.
///
/// Amazon S3 API reference, "POST Policy" (Browser-Based Uploads Using POST); OSS, "PostObject", appendix "Policy";
/// COS, "POST Object", "Policy". JSON in Base64:
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

    /// A condition on one field.
    struct Rule: Sendable, Equatable {
        /// In lower case.
        let field: String
        let condition: Condition
        /// The condition as text, for messages.
        let text: String
    }

    package let expiresAt: Date
    /// Allowed size of the file in bytes; `nil` for any.
    package let contentLengths: ClosedRange<Int64>?
    let rules: [Rule]
    private let vendor: Vendor

    init(expiresAt: Date, contentLengths: ClosedRange<Int64>?, rules: [Rule], vendor: Vendor) {
        self.expiresAt = expiresAt
        self.contentLengths = contentLengths
        self.rules = rules
        self.vendor = vendor
    }

    /// Checks the fields of a form against the policy; all of them precede the file.
    ///
    /// - Parameters:
    ///   - form: The form that contains the policy.
    ///   - bucket: The bucket of the request.
    ///   - now: The time of the request.
    /// - Throws: `.expired`, `.conditionFailed`, `.fieldNotCovered`.
    package func check(_ form: PostForm, bucket: String, at now: Date) throws(PostPolicyProblem) {
        guard now < expiresAt else { throw .expired }
        for rule in rules where !isMet(rule, by: form, bucket: bucket) { throw .conditionFailed(rule.text) }
        let covered = Set(rules.map { ExactText($0.field) })
        for name in demanded where !covered.contains(ExactText(name)) { throw .fieldNotCovered(name) }
        for field in form.fields {
            let name = field.name.lowercasedASCII()
            guard covered.contains(ExactText(name)) || isExempt(name, in: form) else {
                throw .fieldNotCovered(field.name)
            }
        }
    }

    /// Whether the policy has any condition on a field; case-insensitive.
    package func hasCondition(for field: String) -> Bool {
        let field = field.lowercasedASCII()
        return rules.contains { $0.field.isExactly(field) }
    }

    /// Whether the conditions on the media type allow the one of the file, in a form that has no field for it.
    package func allows(contentType: String) -> Bool {
        rules.allSatisfy { !["content-type", "x-oss-content-type"].contains($0.field) || isMet($0, by: contentType) }
    }

    /// Checks the size of the file against the policy.
    ///
    /// - Parameters:
    ///   - length: Number of bytes, complete or so far.
    ///   - isComplete: Whether all bytes have arrived; until then only the maximum is checked.
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
        // If both exist, OSS uses the other one.
        case "q-sign-time" where vendor == .tencent: value = form["q-key-time"] ?? ""
        case "content-type" where vendor == .aliyun: value = form["x-oss-content-type"] ?? form["content-type"] ?? ""
        default: value = form[rule.field] ?? ""
        }
        return isMet(rule, by: value)
    }

    private func isMet(_ rule: Rule, by value: String) -> Bool {
        switch rule.condition {
        case .equal(let expected): return value.isExactly(expected)
        case .startsWith(let prefix):
            // For S3, every element of a list of media types must begin like this.
            let isList = vendor == .aws && rule.field == "content-type"
            let elements = isList ? value.split(separator: ",", omittingEmptySubsequences: false) : [Substring(value)]
            return elements.allSatisfy { element in
                let element = isList ? element.drop { $0 == " " } : element
                return element.utf8.starts(with: prefix.utf8)
            }
        case .oneOf(let allowed): return allowed.contains { $0.isExactly(value) }
        case .noneOf(let forbidden): return !forbidden.contains { $0.isExactly(value) }
        }
    }

    /// Fields that the policy must mention.
    ///
    /// Amazon treats the bucket as a field of every form; without it the policy would be valid for all buckets.
    private var demanded: [String] {
        switch vendor {
        case .aws: ["bucket"]
        case .aliyun: []
        case .tencent: ["q-sign-algorithm", "q-ak", "q-sign-time"]
        }
    }

    /// Whether a field may occur that the policy does not mention.
    ///
    /// S3 requires every field in the policy, except those that cannot be there and `x-ignore-…`. OSS checks only
    /// fields that the policy mentions, but its newer form also requires the signature fields; COS requires these too.
    private func isExempt(_ name: String, in form: PostForm) -> Bool {
        switch vendor {
        case .tencent: return true
        case .aws:
            let exempt = ["policy", "x-amz-signature", "file", "awsaccesskeyid", "signature"]
            return exempt.contains(name) || name.hasPrefix("x-ignore-")
        case .aliyun:
            guard form["x-oss-signature-version"] != nil else { return true }
            let signed = ["x-oss-signature-version", "x-oss-credential", "x-oss-date", "x-oss-security-token"]
            return !signed.contains(name)
        }
    }
}
