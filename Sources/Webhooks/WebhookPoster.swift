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
        guard timeout > .zero else {
            throw HookFailure("the receiver did not respond in time", isTransient: true, isOutage: true)
        }
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
        let size = headers.reduce(content.count) { $0 + $1.name.utf8.count + $1.value.utf8.count }
        let response: HTTPClientResponse
        do throws(HTTPClientError) {
            response = try await client.send(request, within: timeout)
        } catch {
            throw HookFailure(error.message, isTransient: true, isOutage: Self.isOutage(error, size))
        }
        guard (200...299).contains(response.status) else {
            throw Self.refusal(response, size)
        }
        return response.body
    }

    /// Whether a failure tells that the app is away.
    ///
    /// - Parameters:
    ///   - error: Of the client.
    ///   - size: Bytes of the call.
    /// - Returns: Whether it does.
    private static func isOutage(_ error: HTTPClientError, _ size: Int) -> Bool {
        switch error {
        case .unreachable, .tls, .proxy: true
        case .connection, .timedOut: size <= usualBytes
        case .badRequest, .refusedAddress, .contentFailed, .malformed, .padded, .tooLarge, .tooManyRedirects,
            .cancelled,
            .stopped:
            false
        }
    }

    /// The failure for a status outside 2xx.
    ///
    /// Only 5xx is one of the app. Others can be for what the client chose (from a proxy or filter before the receiver, too), or
    /// for how often it calls, or for a wrong URL: by none of them it must get past the app.
    private static func refusal(_ response: HTTPClientResponse, _ size: Int) -> HookFailure {
        var failure = HookFailure(
            "the receiver responded with status \(response.status)",
            isTransient: response.status >= 500 || response.status == 429,
            isOutage: response.status >= 500 && size <= usualBytes,
            retryAfter: RetryAfter.seconds(response.headers["Retry-After"], at: Date().timeIntervalSince1970)
        )
        if response.status == 429 {
            failure.refusal = UploadError(
                .unavailable,
                "The app that approves uploads takes no more calls for now; try again later."
            )
        } else if (400...499).contains(response.status) {
            failure.refusal = UploadError(
                .unavailable,
                "The app that approves uploads does not take this one's description."
            )
        }
        return failure
    }

    /// Bytes of a call that every receiver takes; usual ones have a tenth.
    ///
    /// A receiver, or a proxy before it, may close the connection on larger ones, and a client can bring them about.
    private static let usualBytes = 16 << 10
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
