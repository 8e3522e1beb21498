/// Why an upload by a form is refused because of its policy.
package enum PostPolicyProblem: Error, Sendable, Equatable {
    /// The policy is no Base64 of a document as it must be; what to change, in one sentence.
    case malformed(String)
    case expired
    /// The condition that the form does not meet, as the policy has it.
    case conditionFailed(String)
    /// A field that the policy says nothing of.
    case fieldNotCovered(String)
    /// A field that the form has twice, so that it is open which one the policy is about.
    case repeatedField(String)
    /// The content has fewer bytes.
    case tooSmall(minimum: Int64)
    /// The content has more bytes.
    case tooLarge(maximum: Int64)

    /// As the vendors word it, as far as their clients look at it.
    package var message: String {
        switch self {
        case .malformed(let reason): reason
        case .expired: "Invalid according to Policy: Policy expired."
        case .conditionFailed(let condition): "Invalid according to Policy: Policy Condition failed: \(condition)"
        case .fieldNotCovered(let name): "Invalid according to Policy: Extra input fields: \(name)"
        case .repeatedField(let name): "The form must have the field \(name) once."
        case .tooSmall(let minimum): "The file must have at least \(minimum) bytes, as the policy says."
        case .tooLarge(let maximum): "The file must have at most \(maximum) bytes, as the policy says."
        }
    }
}
