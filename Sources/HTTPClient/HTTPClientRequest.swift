/// A request that `HTTPClient` sends.
package struct HTTPClientRequest: Sendable {
    /// A token (RFC 9110 §9.1).
    package var method: String
    /// Absolute, `http` or `https`; user and password in it become Basic credentials for its host.
    package var url: String
    /// Sent as they are, in their order; to a redirect's target only if scheme, host and port are the same.
    package var headers: [(name: String, value: String)]
    /// The content, if it is there as a whole.
    package var body: [UInt8]
    /// The content, if it is sent while it is made; instead of `body`.
    ///
    /// An answer that comes before all of it was sent is the answer. With a status of 300 or more the rest is not sent, and
    /// the connection is closed. A redirect that asks for the same request again (307, 308) gets it from offset 0 on.
    package var content: (any HTTPRequestContent)?
    /// How long the other side is given to refuse by the head alone, before `content` is sent (RFC 9110 §10.1.1).
    ///
    /// `nil` sends it at once, without `Expect: 100-continue`.
    package var expectsContinue: Duration?
    /// From the start, redirects included, to the last byte of the answer; not positive for no limit.
    ///
    /// The time in line, while others are on their way, does not count.
    package var timeout: Duration
    /// For name look-up, TCP and TLS of each connection; not positive for five minutes.
    package var connectTimeout: Duration
    /// How long fewer than `minimumRate` bytes a second may come or go, in whole seconds; not positive for no limit.
    ///
    /// The time in which nobody pulls the answer, or `content` has nothing to send, does not count.
    package var stallTimeout: Duration = .zero
    /// Bytes a second; at least 1.
    package var minimumRate: Int = 1
    /// Bytes of the answer's content that `send` takes; `open` leaves it to whoever pulls.
    package var maximumResponseBytes: Int
    /// Redirects (301, 302, 303, 307, 308) that are followed; with 0 such an answer is the answer.
    package var maximumRedirects: Int
    /// Leaves the connection open for later requests; not to be done where the other side is not trusted to frame its answers.
    package var keepsConnection = true
    /// Is sent once at most: on a kept connection that breaks without an answer, libcurl sends a request again.
    package var needsNewConnection = false

    package init(
        method: String = "GET",
        url: String,
        headers: [(name: String, value: String)] = [],
        body: [UInt8] = [],
        timeout: Duration = .seconds(30),
        connectTimeout: Duration = .seconds(10),
        maximumResponseBytes: Int = 1 << 20,
        maximumRedirects: Int = 0
    ) {
        self.method = method
        self.url = url
        self.headers = headers
        self.body = body
        self.timeout = timeout
        self.connectTimeout = connectTimeout
        self.maximumResponseBytes = maximumResponseBytes
        self.maximumRedirects = maximumRedirects
    }
}
