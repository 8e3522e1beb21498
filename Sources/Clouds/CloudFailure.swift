/// Why a request to a cloud failed.
package struct CloudFailure: Error, Sendable, Equatable {
    package enum Kind: String, Sendable {
        /// No response, overload, or no credentials; a later retry may succeed.
        case unavailable
        /// The cloud refused.
        case refused
        /// The response cannot be parsed.
        case malformed
    }

    package let kind: Kind
    /// For the client: which cloud, which request, and what happened, without secrets.
    package let message: String
    /// For the log of the operator only.
    package let cause: String?
    /// The cloud's error code.
    let code: String?

    init(_ kind: Kind, _ message: String, cause: String? = nil, code: String? = nil) {
        self.kind = kind
        self.message = message
        self.cause = cause
        self.code = code
    }
}
