internal import Bytes

/// Why a request has no answer, or not the whole of it.
package enum HTTPClientError: Error, Equatable, Sendable {
    /// The URL is not an absolute http or https URL, or method or fields of the request can not be sent.
    case badRequest(String)
    /// The address policy refuses the address, which is for the log of the operator only.
    case refusedAddress(String)
    /// No connection: the name is not known, or nobody answers at its addresses.
    case unreachable
    /// TLS failed: the certificate is not valid for the host, or no common version.
    case tls
    /// The connection ended before the answer did.
    case connection
    /// The proxy makes no connection to the host; it answered with this status.
    case proxy(status: Int)
    /// The content of the request failed.
    case contentFailed
    /// The answer is not HTTP.
    case malformed
    case timedOut
    /// The answer's content has more bytes than are wanted.
    case tooLarge(limit: Int)
    case tooManyRedirects(limit: Int)
    /// The task was cancelled, or the download interrupted.
    case cancelled
    /// The client was closed.
    case stopped
}

extension HTTPClientError: CustomStringConvertible {
    /// What went wrong, without URL, address or anything else that the caller did not say.
    package var message: String {
        switch self {
        case .badRequest(let reason): reason
        case .refusedAddress: "the host has an address that is not allowed"
        case .unreachable: "the host can not be reached"
        case .tls: "the TLS connection could not be made, or the certificate of the host is not valid"
        case .connection: "the connection ended before the answer did"
        case .proxy(let status): "the proxy does not connect to the host: it answered \(status)"
        case .contentFailed: "the content of the request ended before its length"
        case .malformed: "the answer is not valid HTTP"
        case .timedOut: "the answer did not come in time"
        case .tooLarge(let limit): "the answer has more than \(limit) bytes"
        case .tooManyRedirects(let limit): "there were more than \(limit) redirects"
        case .cancelled: "the request was given up"
        case .stopped: "the client is stopping"
        }
    }

    package var description: String { message }

    /// What whoever pulls the content is told.
    var sourceFailure: SourceFailure {
        switch self {
        case .timedOut: .timedOut
        case .tooLarge(let limit): .tooLarge(limit: Int64(limit))
        case .malformed: .malformed(message)
        case .stopped: .shuttingDown
        case .cancelled: .interrupted
        case .badRequest, .refusedAddress, .unreachable, .tls, .connection, .proxy, .contentFailed, .tooManyRedirects:
            .disconnected
        }
    }
}
