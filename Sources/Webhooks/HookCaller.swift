internal import Foundation
package import HTTPClient
internal import HTTPWire
package import Signing
internal import UploadCore

/// How hooks are called.
package struct HookSettings: Sendable {
    /// Where they are sent, `http` or `https`.
    package var url: String
    package var events: Set<HookName>
    /// For one call, until its answer has come.
    package var timeout: Duration
    /// Whether the server goes on when a blocking hook can not be asked.
    package var isFailOpen: Bool
    /// Times that an event is told before it is given up.
    package var maximumAttempts: Int
    /// At the same time.
    package var concurrency: Int
    /// Fields of the client's request that are passed on with a blocking hook.
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

/// Sends one hook and reads its answer.
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
    ///   - payload: What is told.
    ///   - id: The same for every attempt.
    ///   - now: The time of this attempt.
    ///   - timeout: Until the answer has come.
    ///   - fields: Further fields.
    /// - Returns: What the receiver answered with a status of 2xx.
    /// - Throws: `HookFailure`.
    func call(
        _ payload: HookPayload,
        id: String,
        at now: Date,
        timeout: Duration,
        fields: [(name: String, value: String)] = []
    ) async throws(HookFailure) -> HookReply {
        // To the client no time at all would be no limit.
        guard timeout > .zero else { throw HookFailure("the receiver did not answer in time", isTransient: true) }
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let data = try? encoder.encode(payload) else { throw HookFailure("the hook can not be written as JSON") }
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
                "the receiver answered \(response.status)",
                isTransient: response.status >= 500 || response.status == 429,
                retryAfter: response.headers["Retry-After"].flatMap { Double($0) }
            )
        }
        return try HookReply(content: response.body)
    }

    private static let maximumReplyBytes = 64 << 10
    /// What this server says itself.
    private static let reserved: Set<String> = [
        "content-type", "content-length", "transfer-encoding", "host", "connection", "expect", "webhook-id",
        "webhook-timestamp", "webhook-signature",
    ]
}
