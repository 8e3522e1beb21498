package import HTTPWire
package import SystemIO
package import Transport

/// Limits and timeouts of an HTTP server.
///
/// Each limit names the status of the response to a request that exceeds it.
package struct ServerConfiguration: Sendable {
    /// Limits of the request line (414), of the head's bytes and of its number of fields (431).
    package var head = HeadLimits()
    /// Maximum content of any request, in bytes (413); `nil` leaves it to the handlers.
    package var maximumBodyBytes: Int64?
    /// Maximum number of open connections; further ones wait in the kernel's queue.
    package var maximumConnections = 20_000
    /// Maximum number of open connections of one address (`AddressBlock`); zero means no limit.
    ///
    /// Further ones are closed at once.
    package var maximumConnectionsPerAddress = 0
    /// Peers that may have any number of connections, because they are those of many clients.
    package var unlimitedPeers = PeerList()

    /// Peers that begin each connection with a header of the PROXY protocol; no other may.
    package var proxyHeaderPeers = PeerList()

    /// Maximum time from the first to the last byte of a head (408), and for the TLS handshake.
    package var headTimeout: Duration = .seconds(15)
    /// Maximum time between requests; then the connection is closed.
    ///
    /// Kept with a tolerance of 0.3 seconds.
    package var idleTimeout: Duration = .seconds(75)
    /// Maximum time without a byte of a request's content (408).
    package var bodyTimeout: Duration = .seconds(60)
    /// Minimum rate of a request's content in bytes per second (408); zero means no limit.
    ///
    /// Only time spent waiting for content counts, less `bodyTimeout`. Thus a client cannot hold a connection for ever
    /// by sending a byte now and then.
    package var minimumBodyRate: Int64 = 0
    /// Maximum time without the peer accepting a byte of a response; then the connection is closed.
    package var writeTimeout: Duration = .seconds(60)
    /// Maximum time from the head of a request to the last byte of its content (408); zero means no limit.
    package var totalTimeout: Duration = .zero
    /// How long a stopping server lets running requests finish before it cuts off their content.
    package var shutdownGrace: Duration = .seconds(20)

    /// Unread request content up to this size in bytes is read before the response, to keep the connection.
    ///
    /// If it is larger, or does not arrive within `drainTimeout`, the connection is closed after the response.
    package var drainBytes: Int64 = 65_536
    /// How long a response waits for unread request content; kept with a tolerance of 0.1 seconds.
    package var drainTimeout: Duration = .milliseconds(100)
    /// After a response that was sent before the request's content ended, remaining content is read and discarded for
    /// at most this long.
    ///
    /// Otherwise a connection reset could destroy the response (RFC 9112 §9.6).
    package var lingerTimeout: Duration = .seconds(30)
    /// Like `lingerTimeout`, but counts only time without a byte.
    package var lingerIdleTimeout: Duration = .seconds(5)

    package init() {}
}

/// Receives events of connections and requests, for logs and metrics.
///
/// Called on event loops; must return quickly.
package protocol ServerObserver: Sendable {
    func connectionOpened()
    func connectionClosed()
    /// A connection was closed at once, because its address has too many.
    func connectionRefused()
    func requestFinished(_ summary: RequestSummary)
    /// A connection ended before its first request, because of the TLS handshake or of a proxy's header.
    func handshakeFailed(_ failure: HandshakeFailure)
    /// A connection could not be accepted; further ones may have to wait.
    func acceptFailed(_ error: SystemError)
}

extension ServerObserver {
    package func connectionRefused() {}
    package func handshakeFailed(_ failure: HandshakeFailure) {}
    package func acceptFailed(_ error: SystemError) {}
}

/// Why what comes before the first request failed: the TLS handshake, and before it the header of a proxy.
package struct HandshakeFailure: Sendable, Equatable {
    package enum Kind: String, Sendable, CaseIterable {
        /// The client disconnected or never tried to use TLS; port scans look like this.
        case closed
        /// No common version or cipher, no acceptable certificate, or no TLS at all.
        case `protocol`
        /// It took longer than `ServerConfiguration.headTimeout`.
        case timedOut = "timed_out"
        /// A proxy did not begin with a header of the PROXY protocol.
        case proxyHeader = "proxy_header"
    }

    package var kind: Kind
    /// A short text from the library, if there is one.
    package var detail: String?
    package var peerAddress: String
}

/// A request and its response, for logs and metrics.
package struct RequestSummary: Sendable {
    package var id: String
    /// `nil` if the head could not be parsed.
    package var method: HTTPMethod?
    package var status: Status
    package var trace: Response.Trace
    /// Content bytes read from the request.
    package var bytesReceived: Int64
    /// Content bytes sent in the response.
    package var bytesSent: Int64
    package var duration: Duration
    package var peerAddress: String
    /// Whether the response could not be sent completely.
    package var isBroken: Bool
    /// Why the request was refused before it reached a handler.
    package var refusal: String?
}
