internal import Foundation
internal import HTTPClient
internal import HTTPWire
internal import ObjectAPI
internal import Signing
internal import UploadCore

/// Sends callbacks by HTTP, to hosts that the operator allows.
///
/// A host that is allowed by its own name may have any address: an app's backend often has a private one. Of those that a star
/// stands for, whose names somebody else may give out, only public addresses are connected to.
struct CallbackClient: CallbackSender {
    /// For one URL, from looking up its name to the end of its answer ("Callback", OSS documentation).
    static let limit = Duration.seconds(5)

    private let hosts: [CallbackHost]
    private let named: HTTPClient
    private let matched: HTTPClient
    private let signer: WebhookSigner
    private let clock: any WallClock
    private let limit: Duration
    private let onEnd: @Sendable (Bool) -> Void

    /// - Parameters:
    ///   - hosts: That may be called.
    ///   - signer: Signs callbacks.
    ///   - clock: For their timestamps.
    ///   - limit: For one URL.
    ///   - onEnd: Told whether the app answered as it must.
    init(
        _ hosts: [CallbackHost],
        signer: WebhookSigner,
        clock: any WallClock,
        limit: Duration = Self.limit,
        onEnd: @escaping @Sendable (_ isAnswered: Bool) -> Void
    ) {
        self.hosts = hosts
        self.signer = signer
        self.clock = clock
        self.limit = limit
        self.onEnd = onEnd
        named = HTTPClient(userAgent: "sluice/\(Version.current)", addresses: .any)
        matched = HTTPClient(userAgent: "sluice/\(Version.current)", addresses: .publicOnly())
    }

    func close() {
        named.close()
        matched.close()
    }

    func problem(with url: String) -> CallbackURLProblem? {
        // An authority has no user here, so that no password is sent anywhere.
        guard let target = try? RequestTarget(parsing: url), target.authority != nil, let address = WebAddress(url)
        else { return .malformed }
        return hosts.contains { $0.covers(address) } ? nil : .notAllowed
    }

    func mayName(host: String) -> Bool {
        guard let place = ListenAddress(host) ?? ListenAddress(host + ":0") else { return false }
        return hosts.contains { $0.covers(name: place.host.lowercased()) }
    }

    func send(_ message: CallbackMessage, to url: String) async throws(CallbackFailure) -> CallbackAnswer {
        guard let address = WebAddress(url) else { throw .unreachable }
        let isNamed = hosts.contains { !$0.isWildcard && $0.covers(address) }
        var headers = [(name: "Content-Type", value: message.contentType)]
        if let host = message.host { headers.append((name: "Host", value: host)) }
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
            maximumResponseBytes: CallbackAnswer.maximumBytes
        )
        // Sent once, and never to be taken for the answer to another.
        request.needsNewConnection = true
        request.keepsConnection = false
        do throws(HTTPClientError) {
            let response = try await (isNamed ? named : matched).send(request, within: limit)
            return CallbackAnswer(status: response.status, length: response.contentLength, body: response.body)
        } catch {
            switch error {
            case .timedOut: throw .timedOut
            case .tooLarge: throw .tooLarge
            default: throw .unreachable
            }
        }
    }

    func ended(_ failure: CallbackFailure?) { onEnd(failure == nil) }
}
