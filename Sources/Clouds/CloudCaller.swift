internal import Bytes
package import HTTPClient
package import Signing
internal import Synchronization
internal import XMLText

/// Sends requests to a cloud, each once and with a short timeout, because the waiting client can retry.
package final class CloudCaller: Sendable {
    /// Maximum concurrent requests; beyond it, the HTTP library's client would queue them without limit.
    package static let maximumCalls = 64
    private static let maximumMessageLength = 300

    /// Its name in messages: `AWS`.
    let cloud: String
    private let client: HTTPClient
    private let timeout: Duration
    private let running = Atomic<Int>(0)

    /// - Parameters:
    ///   - vendor: Named in messages.
    ///   - client: Allows `maximumCalls` concurrent transfers.
    ///   - timeout: From the start of a request to the last byte of its response.
    package convenience init(cloud vendor: Vendor, client: HTTPClient, timeout: Duration = .seconds(10)) {
        self.init(named: vendor.cloudName, client: client, timeout: timeout)
    }

    init(named cloud: String, client: HTTPClient, timeout: Duration) {
        self.cloud = cloud
        self.client = client
        self.timeout = timeout
    }

    /// A request, and its name in messages.
    struct Call: Sendable {
        /// `AssumeRole`.
        var name: String
        var method = "POST"
        var url: String
        var headers: [SigningField]
        var body: [UInt8] = []
        var maximumResponseBytes = 64 << 10
        /// The signing credentials, which must not appear in messages.
        var credentials: SigningCredentials?
        /// The request must not be repeated; others may be, if a kept-alive connection breaks before a response.
        var isOnce = false
    }

    /// Sends a request.
    ///
    /// - Parameter call: The request.
    /// - Returns: The response, whatever its status.
    /// - Throws: `.unavailable`, `.malformed`.
    func send(_ call: Call) async throws(CloudFailure) -> HTTPClientResponse {
        defer { running.subtract(1, ordering: .relaxed) }
        guard running.add(1, ordering: .relaxed).newValue <= Self.maximumCalls else {
            throw CloudFailure(.unavailable, "too many calls to \(cloud) are under way; try again")
        }
        var request = HTTPClientRequest(
            method: call.method,
            url: call.url,
            headers: call.headers.map { (name: $0.name, value: $0.value) },
            body: call.body,
            timeout: timeout,
            connectTimeout: timeout,
            maximumResponseBytes: call.maximumResponseBytes
        )
        request.needsNewConnection = call.isOnce
        do throws(HTTPClientError) {
            return try await client.send(request)
        } catch {
            let message = "\(call.name) of \(cloud) did not respond: \(error.message)"
            switch error {
            case .tooLarge, .malformed, .badRequest: throw CloudFailure(.malformed, message)
            default: throw CloudFailure(.unavailable, message)
            }
        }
    }

    /// Converts an XML error response.
    ///
    /// - Parameters:
    ///   - call: The request.
    ///   - status: Of the response.
    ///   - document: `Error`, as stores have it, or `ErrorResponse` with one, as AWS's token service has it; Ceph's has the former.
    /// - Returns: The failure, as in the other overload.
    func failure(_ call: Call, status: Int, _ document: XMLNode?) -> CloudFailure {
        let error = document?.name == "Error" ? document : document?.all("Error").first
        return failure(call, status: status, code: error?["Code"], message: error?["Message"])
    }

    /// Converts an error response.
    ///
    /// - Parameters:
    ///   - call: The request.
    ///   - status: Of the response.
    ///   - code: The cloud's error code, such as `AccessDenied`; `nil` for a response without a code.
    ///   - message: The cloud's message.
    /// - Returns: `.unavailable` if the cloud asks for a later retry, otherwise `.refused`; `.malformed` without a
    ///   code.
    func failure(_ call: Call, status: Int, code: String?, message: String?) -> CloudFailure {
        guard let code, isName(code) else {
            let kind: CloudFailure.Kind = status == 429 || status >= 500 ? .unavailable : .malformed
            return CloudFailure(
                kind,
                "\(call.name) of \(cloud) returned status \(status) without an error code"
            )
        }
        let isBusy =
            status == 429 || status == 503 || code.hasPrefix("Throttl") || code.hasPrefix("RequestLimitExceeded")
            || code == "SlowDown" || code == "ServiceUnavailable"
        // With such codes the message contains the signed text, and with it the token.
        let text = code.contains("Signature") ? nil : message.map { shown($0, call.credentials) }
        return CloudFailure(
            isBusy ? .unavailable : .refused,
            "\(cloud) \(isBusy ? "put off" : "refused") \(call.name): \(code)"
                + (text.map { $0.isEmpty ? "" : " (\($0))" } ?? ""),
            code: code
        )
    }

    func malformed(_ call: Call) -> CloudFailure {
        CloudFailure(.malformed, "\(call.name) of \(cloud) returned an unexpected response")
    }

    private func isName(_ code: String) -> Bool {
        (1...100).contains(code.utf8.count)
            && code.utf8.allSatisfy { byte in
                (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte)
                    || (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte)
                    || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) || "._-".utf8.contains(byte)
            }
    }

    /// A message of the cloud in one line of bounded length, without secrets.
    private func shown(_ message: String, _ credentials: SigningCredentials?) -> String {
        var text = message
        let secrets = [credentials?.secretAccessKey, credentials?.sessionToken].compactMap { $0 }
        for secret in secrets where !secret.isEmpty {
            text = text.replacing(secret, with: "<redacted>")
        }
        let scalars = text.unicodeScalars.map { $0.properties.generalCategory == .control ? " " : $0 }
        let short = String(String.UnicodeScalarView(scalars.prefix(Self.maximumMessageLength)))
        return scalars.count > Self.maximumMessageLength ? short + "…" : short
    }
}
