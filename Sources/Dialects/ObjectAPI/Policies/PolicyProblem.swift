/// Why a policy is refused.
package struct PolicyProblem: Error, Sendable, Equatable {
    package enum Kind: Sendable, Equatable {
        /// It is not what the vendor's grammar allows.
        case malformed
        /// It may be right, but Sluice does not do what it says.
        case unsupported
        /// It has more than `SessionPolicy.maximumByteCount`.
        case tooLong
    }

    package let kind: Kind
    /// The element it is about, such as `Statement[0].Action`; empty for the whole policy.
    package let element: String
    /// What is wrong and what to write, in one sentence.
    package let message: String

    init(_ kind: Kind, _ element: String, _ message: String) {
        self.kind = kind
        self.element = element
        self.message = message
    }
}
