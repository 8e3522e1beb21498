internal import Bytes

/// Why a form upload is refused because of its policy.
package enum PostPolicyProblem: Error, Sendable, Equatable {
    /// The policy is not valid Base64 of a valid document; the text says what to change, in one sentence.
    case malformed(String)
    case expired
    /// The condition that the form violates, as written in the policy.
    case conditionFailed(String)
    /// A field that the policy does not mention.
    case fieldNotCovered(String)
    /// A repeated field, so that it is ambiguous which value the policy is about.
    case repeatedField(String)
    /// A field whose value is no text, or too long, with the file name in place of `${filename}`.
    case unfitFileName(String)
    /// The content is smaller, in bytes.
    case tooSmall(minimum: Int64)
    /// The content is larger, in bytes.
    case tooLarge(maximum: Int64)

    /// In the vendors' wording, as far as their clients compare it.
    package var message: String {
        switch self {
        case .malformed(let reason): reason
        case .expired: "Invalid according to Policy: Policy expired."
        case .conditionFailed(let condition): "Invalid according to Policy: Policy Condition failed: \(condition)"
        case .fieldNotCovered(let name): "Invalid according to Policy: Extra input fields: \(name)"
        case .repeatedField(let name): "The form must have the field \(name) once."
        case .unfitFileName(let name):
            """
            With the file name in place of ${filename}, the field \(name) must be \(ClientText.requirement), and all such \
            fields may have at most \(PostForm.maximumExpanded >> 10) KiB.
            """
        case .tooSmall(let minimum): "The file must have at least \(minimum) bytes, as the policy says."
        case .tooLarge(let maximum): "The file must have at most \(maximum) bytes, as the policy says."
        }
    }
}
