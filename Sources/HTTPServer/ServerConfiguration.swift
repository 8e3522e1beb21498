package import HTTPWire
package import Transport

/// Limits and times of an HTTP server.
///
/// Each limit names the answer that a request beyond it gets.
package struct ServerConfiguration: Sendable {
    /// Request line (414), head bytes and number of fields (431).
    package var head = HeadLimits()
    /// Largest content of any request, in bytes (413); `nil` leaves it to the handlers.
    package var maximumBodyBytes: Int64?
    /// Open connections; further ones wait in the kernel's queue.
    package var maximumConnections = 20_000

    /// From the first byte of a head to its last (408), and for the TLS handshake.
    package var headTimeout: Duration = .seconds(15)
    /// Without a request on an open connection, which is then closed; kept with a tolerance of three tenths of a second.
    package var idleTimeout: Duration = .seconds(75)
    /// Without a byte of a request's content (408).
    package var bodyTimeout: Duration = .seconds(60)
    /// Least bytes a second of a request's content (408); zero for no limit.
    ///
    /// What counts is the time that was spent waiting for it, less `bodyTimeout`, so that a byte now and then does not
    /// hold a connection for ever.
    package var minimumBodyRate: Int64 = 0
    /// Without the peer taking a byte of an answer; the connection is then closed.
    package var writeTimeout: Duration = .seconds(60)
    /// From the head of a request to the last byte of its content (408); zero for no limit.
    package var totalTimeout: Duration = .zero
    /// How long a stopping server lets running requests finish before it cuts off their content.
    package var shutdownGrace: Duration = .seconds(20)

    /// Content of a request that nobody read is still taken up to this size to keep the connection, in bytes.
    package var drainBytes: Int64 = 65_536
    /// After an answer that came before the end of the request's content, what still comes is read and thrown away for
    /// at most this long, so that the answer is not lost to a reset (RFC 9112 §9.6).
    package var lingerTimeout: Duration = .seconds(30)
    /// The same, without a byte coming.
    package var lingerIdleTimeout: Duration = .seconds(5)

    package init() {}
}

/// Is told what connections and requests do: logs and metrics.
///
/// Called on loops; must be quick.
package protocol ServerObserver: Sendable {
    func connectionOpened()
    func connectionClosed()
    func requestFinished(_ summary: RequestSummary)
    /// A connection that ended before its first request because TLS could not be begun.
    func handshakeFailed(_ failure: HandshakeFailure)
    /// A connection that could not be taken; others may wait until it can.
    func acceptFailed(_ error: SystemError)
}

extension ServerObserver {
    package func handshakeFailed(_ failure: HandshakeFailure) {}
    package func acceptFailed(_ error: SystemError) {}
}

/// Why TLS could not be begun with a client.
package struct HandshakeFailure: Sendable, Equatable {
    package enum Kind: String, Sendable, CaseIterable {
        /// The client went away, or never meant to speak TLS: ports are looked at in this way.
        case closed
        /// No version, cipher or certificate that both take, or no TLS at all.
        case `protocol`
        /// Longer than `ServerConfiguration.headTimeout`.
        case timedOut = "timed_out"
    }

    package var kind: Kind
    /// In the words of the library, if it has some; short.
    package var detail: String?
    package var peerAddress: String
}

/// One request that was answered, or could not be.
package struct RequestSummary: Sendable {
    package var id: String
    /// `nil` if the head could not be read.
    package var method: HTTPMethod?
    package var status: Status
    package var trace: Response.Trace
    /// Bytes of the request's content that were read.
    package var bytesReceived: Int64
    /// Bytes of the answer's content that were sent.
    package var bytesSent: Int64
    package var duration: Duration
    package var peerAddress: String
    /// The answer did not get through.
    package var isBroken: Bool
    /// Why the request was refused before a handler saw it.
    package var refusal: String?
}
