/// A limit of rates or of concurrent work that a client exceeds, and when it may go on.
package struct RateRefusal: Sendable, Equatable {
    /// Whom a limit counts.
    package enum Client: String, Sendable, CaseIterable {
        case address, key, subject
    }

    /// Requests that may come within some seconds.
    package struct Policy: Sendable, Equatable {
        package let requests: Int
        package let seconds: Int
    }

    package let client: Client
    /// When the next attempt may succeed; at least 1.
    package let seconds: Int64
    /// `nil` for a limit of concurrent work.
    package let policy: Policy?

    package init(_ client: Client, seconds: Int64, policy: Policy? = nil) {
        self.client = client
        self.seconds = max(1, seconds)
        self.policy = policy
    }

    /// `Retry-After`.
    package var retryAfter: String { String(seconds) }

    /// `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-10); `nil` for a limit of concurrent work.
    package var policyField: String? { policy.map { "\"\(client.rawValue)\";q=\($0.requests);w=\($0.seconds)" } }

    /// `RateLimit` of the same draft.
    package var limitField: String? { policy.map { _ in "\"\(client.rawValue)\";r=0;t=\(seconds)" } }
}

extension UploadError {
    /// `Retry-After` for a client that exceeds a rate; `nil` for other errors.
    package var retryAfter: String? { if case .tooManyRequests(let refusal) = code { refusal.retryAfter } else { nil } }

    /// A client that sends more requests than its rate allows.
    ///
    /// - Parameters:
    ///   - client: Whom the limit counts.
    ///   - perSecond: Requests in a second; at least 1.
    ///   - burst: Requests at once.
    ///   - seconds: When the next one may come.
    package init(tooManyRequestsOf client: RateRefusal.Client, perSecond: Int, burst: Int, seconds: Int64) {
        let policy = RateRefusal.Policy(requests: burst, seconds: (burst + perSecond - 1) / perSecond)
        self.init(
            .tooManyRequests(RateRefusal(client, seconds: seconds, policy: policy)),
            "More than \(perSecond) requests in a second came from this \(client.rawValue); send fewer, after Retry-After."
        )
    }

    /// A client that has as many uploads in transfer as it may have.
    package init(tooManyUploadsOf client: RateRefusal.Client, maximum: Int) {
        self.init(
            .tooManyRequests(RateRefusal(client, seconds: 1)),
            "\(maximum) requests of this \(client.rawValue) send content at the same time; wait until one ends."
        )
    }
}
