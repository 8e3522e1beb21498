internal import Bytes
internal import Foundation
internal import HTTPClient
internal import HTTPWire
internal import SettingsKit
package import Signing
internal import Telemetry
package import UploadModel

/// Sends callbacks over HTTP to hosts that the operator allows.
///
/// A host allowed by its exact name may have any address, because an app's backend is often private. For hosts that
/// match a wildcard, whose names others may assign, only public addresses are allowed.
package struct CallbackClient: CallbackSender {
    /// Per URL, from name resolution to the end of the response ("Callback", OSS documentation).
    package static let limit = Duration.seconds(5)
    /// What runs at once; the clients would queue more, and their wait would count as the app's.
    package static let maximumCalls = 256

    private let hosts: [CallbackHost]
    private let named: HTTPClient
    private let matched: HTTPClient
    private let signer: WebhookSigner
    private let clock: any WallClock
    private let limit: Duration
    private let turns: UserTurns
    private let onEnd: @Sendable (Bool) -> Void

    /// - Parameters:
    ///   - hosts: The allowed hosts.
    ///   - signer: Signs callbacks.
    ///   - clock: The clock for timestamps.
    ///   - limit: Maximum time per URL, and for the wait before it.
    ///   - maximumCalls: Maximum number of callbacks at once, of which one user has half.
    ///   - onEnd: Called with whether the app responded as required.
    package init(
        _ hosts: [CallbackHost],
        signer: WebhookSigner,
        clock: any WallClock,
        limit: Duration = Self.limit,
        maximumCalls: Int = Self.maximumCalls,
        onEnd: @escaping @Sendable (_ hasResponse: Bool) -> Void
    ) {
        self.hosts = hosts
        self.signer = signer
        self.clock = clock
        self.limit = limit
        turns = UserTurns(maximumCalls)
        self.onEnd = onEnd
        named = HTTPClient(userAgent: "sluice/\(Version.current)", purpose: "callback", addresses: .any)
        matched = HTTPClient(userAgent: "sluice/\(Version.current)", purpose: "callback", addresses: .publicOnly())
    }

    package func close() {
        named.close()
        matched.close()
    }

    package func problem(with url: String) -> CallbackURLProblem? {
        // A URL with a user is refused, so that no password is sent anywhere.
        guard let target = try? RequestTarget(parsing: url), target.authority != nil, let address = WebAddress(url)
        else { return .malformed }
        return hosts.contains { $0.covers(address) } ? nil : .notAllowed
    }

    package func mayName(host: String) -> Bool {
        guard let place = ListenAddress(host) ?? ListenAddress(host + ":0") else { return false }
        return hosts.contains { $0.covers(name: place.host.lowercasedASCII()) }
    }

    package func send(_ message: CallbackMessage, to url: String) async throws(CallbackFailure) -> CallbackResponse {
        guard let address = WebAddress(url) else { throw .unreachable }
        let isNamed = hosts.contains { !$0.isWildcard && $0.covers(address) }
        var headers = [(name: "Content-Type", value: message.contentType)]
        if let host = message.host { headers.append((name: "Host", value: host)) }
        headers += message.fields.map { (name: $0.name, value: $0.value) }
        headers += signer.fields(
            id: message.id,
            timestamp: Int64(clock.now.timeIntervalSince1970),
            content: message.content
        )
        var request = HTTPClientRequest(
            method: "POST",
            url: url,
            headers: headers,
            body: message.content,
            timeout: limit,
            connectTimeout: limit,
            maximumResponseBytes: CallbackResponse.maximumBytes
        )
        // Sent once, on a new connection, so that no response is taken for another.
        request.needsNewConnection = true
        request.keepsConnection = false
        let client = isNamed ? named : matched
        let call = { @Sendable [request, limit] () async -> Result<HTTPClientResponse, HTTPClientError> in
            do throws(HTTPClientError) { return .success(try await client.send(request, within: limit)) } catch {
                return .failure(error)
            }
        }
        guard let result = await turns.run(for: message.subject, within: limit, call) else { throw .busy }
        do throws(HTTPClientError) {
            let response = try result.get()
            return CallbackResponse(status: response.status, length: response.contentLength, body: response.body)
        } catch {
            switch error {
            case .timedOut: throw .timedOut
            case .tooLarge: throw .tooLarge
            case .unreachable, .refusedAddress: throw .unreachable
            default: throw .noResponse(error.message)
            }
        }
    }

    package func ended(_ failure: CallbackFailure?) { onEnd(failure == nil) }
}
