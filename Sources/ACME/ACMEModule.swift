internal import Bytes
internal import CoreMetrics
internal import Digests
internal import DiskStorage
internal import Foundation
package import GatewayKit
internal import HTTPClient
package import HTTPServer
internal import Logging
internal import MetricsKit
package import ServiceLifecycle
internal import SettingsKit
internal import SystemIO
internal import Telemetry
internal import Transport
internal import UploadModel

/// Gets a certificate for the names of the gateway, and renews it (ACME, RFC 8555).
///
/// Without `acme.domains` it does nothing.
package struct ACMEModule: GatewayModule {
    package let name = "certificates by ACME"
    package let listeners: [HTTPServer]
    package let services: [any Service]
    private let keeper: CertificateKeeper?
    private let client: HTTPClient?

    /// Binds the listener for HTTP-01, if the settings ask for it.
    ///
    /// - Throws: `StartFailure` with a message for the operator.
    package init(_ context: GatewayContext) throws(StartFailure) {
        let acme = context.settings.acme
        guard acme.isOn, let tls = context.tls else {
            (listeners, services, keeper, client) = ([], [], nil, nil)
            return
        }
        let files = KeptFiles(folder: acme.folder(in: context.settings.general.dataDirectory), names: acme.domains)
        try starting { () throws(PrivatePath.Failure) in try files.tighten() }
        let responder: any ChallengeResponder
        switch acme.challenge {
        case .http:
            let requests = RequestResponder()
            responder = requests
            listeners = [try Self.listener(requests, context)]
        case .tlsALPN:
            guard let challenges = tls.challenges else { throw StartFailure("TLS answers no challenges") }
            responder = HandshakeResponder(challenges: challenges)
            listeners = []
        }
        let client = Self.client(trusting: acme.authorities)
        guard let secret = Base64.decodeURLSafe(acme.bindingKey?.exposed ?? "") else {
            throw StartFailure("acme.eabKey is not base64url")
        }
        let (logger, clock) = (context.logger, context.clock)
        let results = { result in
            context.metrics.counter(
                "sluice_acme_orders_total",
                "Orders of certificates by what became of them.",
                ["result": result]
            )
        }
        let keeper = CertificateKeeper(
            files,
            pool: context.pool,
            clock: clock,
            logger: logger,
            orders: (results("ok"), results("failed")),
            reload: { () throws(TLSFailure) in try tls.reload() },
            order: { account in
                let start = ContinuousClock.now
                return CertificateOrder(
                    client: ACMEClient(
                        directory: acme.directory,
                        key: account,
                        now: { clock.now.timeIntervalSince1970 },
                        elapsed: { .now - start },
                        sending: { (request) async throws(HTTPClientError) in try await client.send(request) }
                    ),
                    names: acme.domains,
                    email: acme.email,
                    binding: acme.bindingKeyID.map { ($0, secret) },
                    responder: responder,
                    logger: logger,
                    pause: { try await Task.sleep(for: $0) }
                )
            }
        )
        services = [BackgroundLoop { await keeper.run() }]
        (self.keeper, self.client) = (keeper, client)
    }

    /// Ends the wait after an order that failed, because the operator asks for it; orders nothing that is not due.
    package func hurry() { keeper?.hurry() }

    package func close() { client?.close() }

    static func client(trusting authorities: String?) -> HTTPClient {
        // Any address is allowed: the operator chose the authority, which is often private.
        HTTPClient(
            userAgent: "Sluice/\(Version.current)",
            purpose: "acme",
            maximumTransfers: 2,
            addresses: .any,
            authorities: authorities
        )
    }

    private static func listener(
        _ responder: RequestResponder,
        _ context: GatewayContext
    ) throws(StartFailure) -> HTTPServer {
        let listen = context.settings.acme.httpListen
        do throws(SystemError) {
            return try HTTPServer(
                address: try SocketAddress(resolving: listen.host, port: listen.port),
                tls: nil,
                configuration: context.serverConfiguration,
                loops: context.loops,
                pool: context.pool,
                handler: context.observed(responder),
                observer: context.observation
            )
        } catch {
            throw StartFailure("cannot listen on \(listen): \(error); choose another address (acme.httpListen)")
        }
    }
}
