internal import Foundation
package import HTTPClient
internal import HTTPWire
package import Signing
internal import Synchronization
internal import UploadModel

/// Posts JSON to an app's backend, with a signature (Standard Webhooks).
package struct WebhookPoster: HookTransport {
    private let receiver: Receiver
    private let client: HTTPClient
    private let signer: HookSigner

    /// - Parameters:
    ///   - url: The receiver's URL, `http` or `https`.
    ///   - client: Sends the requests.
    ///   - signer: Signs them.
    package init(url: String, client: HTTPClient, signer: HookSigner) {
        receiver = Receiver(url)
        self.client = client
        self.signer = signer
    }

    package func follow(url: String) { receiver.url = url }

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
        let (url, signer) = (receiver.url, signer.current)
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
            var failure = HookFailure(
                "the receiver responded with status \(response.status)",
                isTransient: response.status >= 500 || response.status == 429,
                retryAfter: RetryAfter.seconds(
                    response.headers["Retry-After"],
                    at: Date().timeIntervalSince1970
                )
            )
            if (400...499).contains(response.status), !Self.causedByApp.contains(response.status) {
                failure.refusal = UploadError(
                    .unavailable,
                    "The app that approves uploads does not take this one's description."
                )
            }
            throw failure
        }
        return response.body
    }

    /// The only refusals that say nothing of the call: what is not there, or too slow.
    ///
    /// Others can be for the payload, from the receiver or a proxy or filter before it: the client chose much of it, and must not
    /// get past the app so.
    private static let causedByApp: Set<Int> = [404, 408, 429]
    /// Of a response to a hook.
    static let maximumReplyBytes = 64 << 10
    /// Fields that the server sets itself.
    private static let reserved: Set<String> = [
        "content-type", "content-length", "transfer-encoding", "host", "connection", "expect", "webhook-id",
        "webhook-timestamp", "webhook-signature",
    ]
}

/// A URL that can change while hooks are sent.
private final class Receiver: Sendable {
    private let value: Mutex<String>

    init(_ url: String) { value = Mutex(url) }

    var url: String {
        get { value.withLock { $0 } }
        set { value.withLock { $0 = newValue } }
    }
}

/// Signs what is posted to the app's backend; the secret can change while hooks are sent.
package final class HookSigner: Sendable {
    private let signer: Mutex<WebhookSigner>

    package init(_ signer: WebhookSigner) { self.signer = Mutex(signer) }

    var current: WebhookSigner { signer.withLock { $0 } }

    package func replace(with other: WebhookSigner) { signer.withLock { $0 = other } }
}
