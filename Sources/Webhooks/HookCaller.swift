internal import Foundation
package import HTTPClient
package import Signing

/// How hooks are called.
package struct HookSettings: Sendable {
    /// The receiver's URL, `http` or `https`.
    package var url: String
    package var events: Set<HookName>
    /// For one call, until its response has arrived.
    package var timeout: Duration
    /// Whether the server continues if the call of a blocking hook fails.
    package var isFailOpen: Bool
    /// Number of attempts to deliver an event.
    package var maximumAttempts: Int
    /// Maximum number of concurrent calls.
    package var concurrency: Int
    /// Fields of the client's request that blocking hooks include.
    package var forwardedFields: [String]

    package init(
        url: String,
        events: Set<HookName>,
        timeout: Duration = .seconds(15),
        isFailOpen: Bool = false,
        maximumAttempts: Int = 20,
        concurrency: Int = 16,
        forwardedFields: [String] = []
    ) {
        self.url = url
        self.events = events
        self.timeout = timeout
        self.isFailOpen = isFailOpen
        self.maximumAttempts = maximumAttempts
        self.concurrency = concurrency
        self.forwardedFields = forwardedFields
    }
}

/// Sends one hook and reads its response.
package struct HookCaller: Sendable {
    package let settings: HookSettings
    private let poster: WebhookPoster

    package init(_ settings: HookSettings, client: HTTPClient, signer: WebhookSigner) {
        self.settings = settings
        poster = WebhookPoster(url: settings.url, client: client, signer: signer)
    }

    /// - Parameters:
    ///   - payload: The content of the hook.
    ///   - id: Identifies the hook; the same for every attempt.
    ///   - now: The time of this attempt.
    ///   - timeout: Until the response has arrived.
    ///   - fields: Additional header fields.
    /// - Returns: The receiver's response, if its status is 2xx.
    /// - Throws: `HookFailure`.
    func call(
        _ payload: HookPayload,
        id: String,
        at now: Date,
        timeout: Duration,
        fields: [(name: String, value: String)] = []
    ) async throws(HookFailure) -> HookReply {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let data = try? encoder.encode(payload) else { throw HookFailure("the hook cannot be encoded as JSON") }
        let reply = try await poster.post(
            [UInt8](data),
            id: id,
            at: Int64(now.timeIntervalSince1970),
            timeout: timeout,
            fields: fields
        )
        return try HookReply(content: reply)
    }
}
