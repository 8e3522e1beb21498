/// Why a policy is refused.
package struct PolicyProblem: Error, Sendable, Equatable {
    package enum Kind: Sendable, Equatable {
        /// It violates the vendor's grammar.
        case malformed
        /// It may be valid, but Sluice does not support it.
        case unsupported
        /// It is longer than `SessionPolicy.maximumByteCount`.
        case tooLong
    }

    package let kind: Kind
    /// The element at fault, such as `Statement[0].Action`; empty for the whole policy.
    package let element: String
    /// What is wrong and what to write instead, in one sentence.
    package let message: String

    init(_ kind: Kind, _ element: String, _ message: String) {
        self.kind = kind
        self.element = element
        self.message = message
    }
}
