internal import Foundation
package import HTTPClient
internal import HTTPWire
package import Signing
internal import UploadCore

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
    private let client: HTTPClient
    private let signer: WebhookSigner

    package init(_ settings: HookSettings, client: HTTPClient, signer: WebhookSigner) {
        self.settings = settings
        self.client = client
        self.signer = signer
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
        // For the client, zero would mean no limit.
        guard timeout > .zero else { throw HookFailure("the receiver did not respond in time", isTransient: true) }
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let data = try? encoder.encode(payload) else { throw HookFailure("the hook cannot be encoded as JSON") }
        let content = [UInt8](data)
        var headers = fields.filter { !Self.reserved.contains($0.name.lowercased()) }
        headers.append(("Content-Type", "application/json"))
        headers += signer.fields(id: id, timestamp: Int64(now.timeIntervalSince1970), content: content)
        let request = HTTPClientRequest(
            method: "POST",
            url: settings.url,
            headers: headers,
            body: content,
            timeout: timeout,
            connectTimeout: timeout,
            maximumResponseBytes: Self.maximumReplyBytes
        )
        let response: HTTPClientResponse
        do throws(HTTPClientError) {
            response = try await client.send(request, within: timeout)
        } catch {
            throw HookFailure(error.message, isTransient: true)
        }
        guard (200...299).contains(response.status) else {
            throw HookFailure(
                "the receiver responded with status \(response.status)",
                isTransient: response.status >= 500 || response.status == 429,
                retryAfter: response.headers["Retry-After"].flatMap { Double($0) }
            )
        }
        return try HookReply(content: response.body)
    }

    private static let maximumReplyBytes = 64 << 10
    /// Fields that the server sets itself.
    private static let reserved: Set<String> = [
        "content-type", "content-length", "transfer-encoding", "host", "connection", "expect", "webhook-id",
        "webhook-timestamp", "webhook-signature",
    ]
}
