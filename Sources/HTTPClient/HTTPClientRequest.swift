/// A request for `HTTPClient`.
package struct HTTPClientRequest: Sendable {
    /// A token (RFC 9110 §9.1).
    package var method: String
    /// Absolute, `http` or `https`.
    ///
    /// User and password in it become Basic credentials for its host.
    package var url: String
    /// Sent unchanged and in order; sent to a redirect's target only if scheme, host and port are the same.
    package var headers: [(name: String, value: String)]
    /// Content that is already in memory.
    package var body: [UInt8]
    /// Content that is streamed; replaces `body`.
    ///
    /// If a response arrives before all of it was sent, that response is final. For a status of 300 or more the rest is
    /// not sent and the connection is closed. A redirect that repeats the request (307, 308) sends the content again
    /// from offset 0.
    package var content: (any HTTPRequestContent)?
    /// How long to wait for `100 Continue` or a refusal before `content` is sent (RFC 9110 §10.1.1).
    ///
    /// `nil` sends the content at once, without `Expect: 100-continue`.
    package var expectsContinue: Duration?
    /// Maximum time from the start, including redirects, to the last byte of the response; zero or less means no limit.
    ///
    /// Time in the queue behind other requests does not count.
    package var timeout: Duration
    /// Timeout for name look-up, TCP and TLS of each connection; zero or less means five minutes.
    package var connectTimeout: Duration
    /// Maximum time below `minimumRate`, in whole seconds; zero or less means no limit.
    ///
    /// Time does not count while the caller does not read the response or `content` has nothing to send.
    package var stallTimeout: Duration = .zero
    /// In bytes per second; at least 1.
    package var minimumRate: Int = 1
    /// Maximum content of the response for `send`; with `open` the consumer decides.
    package var maximumResponseBytes: Int
    /// Maximum number of redirects (301, 302, 303, 307, 308) to follow; with 0 a redirect is returned as the response.
    package var maximumRedirects: Int
    /// Whether the connection is kept for later requests.
    ///
    /// Use `false` if the server is not trusted to frame its responses correctly.
    package var keepsConnection = true
    /// Sends the request at most once: libcurl repeats a request on a reused connection that breaks without a response.
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
