internal import Bytes

/// Why a request has no response or an incomplete one.
package enum HTTPClientError: Error, Equatable, Sendable {
    /// The URL is not an absolute http or https URL, or the method or a field of the request is invalid.
    case badRequest(String)
    /// The address policy refuses the address; the text is for the operator's log only.
    case refusedAddress(String)
    /// No connection: the name is unknown, or none of its addresses accepts a connection.
    case unreachable
    /// TLS failed: the certificate is not valid for the host, or there is no common version.
    case tls
    /// The connection ended before the response.
    case connection
    /// The proxy refused a connection to the host with this status.
    case proxy(status: Int)
    /// The content of the request failed.
    case contentFailed
    /// The response is not valid HTTP, or its framing is ambiguous or in a coding that was not requested.
    case malformed
    /// The response has far more framing, such as extensions of chunks and padding of TLS records, than content.
    case padded
    case timedOut
    /// The content of the response exceeds the limit.
    case tooLarge(limit: Int)
    case tooManyRedirects(limit: Int)
    /// The task was cancelled, or the download interrupted.
    case cancelled
    /// The client was closed.
    case stopped
}

extension HTTPClientError: CustomStringConvertible {
    /// Describes the failure without URL, address or anything else that the caller did not provide.
    package var message: String {
        switch self {
        case .badRequest(let reason): reason
        case .refusedAddress: "the host has an address that is not allowed"
        case .unreachable: "the host cannot be reached"
        case .tls: "the TLS handshake failed, or the certificate of the host is not valid"
        case .connection: "the connection ended before the response"
        case .proxy(let status): "the proxy refused the connection to the host with status \(status)"
        case .contentFailed: "the content of the request ended before its length"
        case .malformed: "the response is not valid HTTP"
        case .padded: "the response is mostly framing, and hardly content"
        case .timedOut: "the response did not arrive in time"
        case .tooLarge(let limit): "the response has more than \(limit) bytes"
        case .tooManyRedirects(let limit): "there were more than \(limit) redirects"
        case .cancelled: "the request was cancelled"
        case .stopped: "the client is stopping"
        }
    }

    package var description: String { message }

    /// The failure for the consumer of the content.
    var sourceFailure: SourceFailure {
        switch self {
        case .timedOut: .timedOut
        case .tooLarge(let limit): .tooLarge(limit: Int64(limit))
        case .malformed, .padded: .malformed(message)
        case .stopped: .shuttingDown
        case .cancelled: .interrupted
        case .badRequest, .refusedAddress, .unreachable, .tls, .connection, .proxy, .contentFailed, .tooManyRedirects:
            .disconnected
        }
    }
}

/// The shared library of HTTP requests is missing on this machine, or too old.
package struct LibraryMissing: Error, CustomStringConvertible {
    /// With the dynamic linker's reason.
    package let description: String
}
