internal import Foundation
package import HTTPClient
internal import HTTPWire
package import Signing

/// Posts JSON to an app's backend, with a signature (Standard Webhooks).
package struct WebhookPoster: HookTransport {
    /// The receiver's URL, `http` or `https`.
    private let url: String
    private let client: HTTPClient
    private let signer: WebhookSigner

    package init(url: String, client: HTTPClient, signer: WebhookSigner) {
        self.url = url
        self.client = client
        self.signer = signer
    }

    package func send(_ message: HookMessage, within timeout: Duration) async throws(HookFailure) -> [UInt8] {
        try await post(
            message.content,
            id: message.id,
            at: message.timestamp,
            timeout: timeout,
            fields: message.fields
        )
    }

    /// - Parameters:
    ///   - content: JSON.
    ///   - id: Identifies the message; the same for every attempt.
    ///   - timestamp: The time of this attempt, Unix seconds.
    ///   - timeout: Until the response has arrived.
    ///   - fields: Additional header fields.
    /// - Returns: The content of the response, if its status is 2xx.
    /// - Throws: `HookFailure`.
    package func post(
        _ content: [UInt8],
        id: String,
        at timestamp: Int64,
        timeout: Duration,
        fields: [(name: String, value: String)] = []
    ) async throws(HookFailure) -> [UInt8] {
        // For the client, zero would mean no limit.
        guard timeout > .zero else { throw HookFailure("the receiver did not respond in time", isTransient: true) }
        var headers = fields.filter { !Self.reserved.contains($0.name.lowercased()) }
        headers.append(("Content-Type", "application/json"))
        headers += signer.fields(id: id, timestamp: timestamp, content: content)
        let request = HTTPClientRequest(
            method: "POST",
            url: url,
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
                retryAfter: RetryAfter.seconds(
                    response.headers["Retry-After"],
                    at: Date().timeIntervalSince1970
                )
            )
        }
        return response.body
    }

    /// Of a response to a hook.
    static let maximumReplyBytes = 64 << 10
    /// Fields that the server sets itself.
    private static let reserved: Set<String> = [
        "content-type", "content-length", "transfer-encoding", "host", "connection", "expect", "webhook-id",
        "webhook-timestamp", "webhook-signature",
    ]
}
