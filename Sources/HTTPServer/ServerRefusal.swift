package import HTTPWire

/// A request that reaches no handler.
package struct ServerRefusal: Sendable {
    package let status: Status
    /// For the client: what is wrong.
    package let reason: String
    /// As in logs.
    package let requestID: String
    /// The head, if it could be read.
    package let head: RequestHead?
    /// The beginning of a head that could not be read; untrusted.
    package let received: [UInt8]

    /// Most bytes of `received`.
    package static let receivedLimit = 4096

    package init(
        _ status: Status,
        _ reason: String,
        requestID: String,
        head: RequestHead? = nil,
        received: [UInt8] = []
    ) {
        self.status = status
        self.reason = reason
        self.requestID = requestID
        self.head = head
        self.received = received
    }

    /// Makes the response, in the form of the listener's clients; the connection ends after it.
    package typealias Writer = @Sendable (ServerRefusal) -> Response
}
