/// Why a cloud did not do what it was asked for.
package struct CloudFailure: Error, Sendable, Equatable {
    package enum Kind: String, Sendable {
        /// It gave no answer, has too much to do, or there are no credentials to ask with; later it may work.
        case unavailable
        /// It said no.
        case refused
        /// Its answer is none.
        case malformed
    }

    package let kind: Kind
    /// For the client: who was asked for what, and what came of it, without anything secret.
    package let message: String
    /// For the log of the operator only.
    package let cause: String?
    /// The cloud's own.
    let code: String?

    init(_ kind: Kind, _ message: String, cause: String? = nil, code: String? = nil) {
        self.kind = kind
        self.message = message
        self.cause = cause
        self.code = code
    }
}
