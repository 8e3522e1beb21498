internal import Foundation
package import GatewayKit
package import HTTPWire
internal import Logging
internal import MetricsKit
internal import ObjectGateway
package import RESTKit
package import ServiceLifecycle
internal import SettingsKit
internal import Signing
internal import UploadCore

/// Tencent Cloud VOD: signatures for its upload SDKs, and in `relay` mode the calls of these SDKs.
package struct TencentModule: GatewayModule {
    package let name = "Tencent VOD"
    package let routes: [Route]
    package let claims: [Claim]
    package let services: [any Service]

    /// - Parameters:
    ///   - context: What every module receives.
    ///   - objects: Serves requests for COS that a client sends to this listener; `nil` without object endpoint.
    package init(_ context: GatewayContext, objects: (any RequestHandler)?) {
        routes =
            TencentAPI(
                issuer: context.settings.tencentIssuer(context.master),
                access: context.access,
                minted: context.metrics.mintCounter("tencent_signature"),
                bodyLimit: context.bodyLimit,
                clock: context.clock
            ).routes
        guard context.settings.tencentMode == .relay else {
            (claims, services) = ([], [])
            return
        }
        let uploads = VODUploads(context)
        claims =
            Self.claims(UGCHandler(context, uploads, isServed: objects != nil))
            + (objects.map { Self.forwarded(to: $0) } ?? [])
        let cleaning = SessionCleaning(
            uploads: uploads,
            interval: context.settings.uploads.sweepEvery,
            logger: context.logger
        )
        services = context.mismatch == nil ? [cleaning] : []
    }

    private static func claims(_ handler: UGCHandler) -> [Claim] {
        let report: @Sendable (Request) async -> Response = { request in await handler.takeReport(request) }
        return [
            Claim(
                [UGCHandler.path],
                operations: [(method: .post, template: UGCHandler.path), (method: .get, template: UGCHandler.path)]
            ) { request in await handler.respond(to: request) },
            Claim(["/ugcupload_new"], operations: [(method: .post, template: "/ugcupload_new")], respond: report),
            Claim(["/ugcupload"], operations: [(method: .post, template: "/ugcupload")], respond: report),
        ]
    }

    /// Requests for COS through this listener: the SDK for mini programs sends them here, with the host in a header.
    private static func forwarded(to objects: any RequestHandler) -> [Claim] {
        let condition = Claim.Condition(text: "with Vod-Forward-Cos") { head in
            head.fields.contains("Vod-Forward-Cos")
        }
        let respond: @Sendable (Request) async -> Response = { request in await objects.respond(to: request) }
        let root = "/\(VODPlace.root)"
        let templates = [
            root, "\(root)/{application}", "\(root)/{application}/{file}", "\(root)/{application}/{file}/{name}",
        ]
        return [
            Claim(["/"], when: condition, operations: [], respond: respond),
            Claim(templates, when: condition, operations: [], respond: respond),
        ]
    }
}

extension VODUploads {
    fileprivate init(_ context: GatewayContext) {
        let place = VODPlace(context.settings.tencent)
        self.init(
            place: place,
            records: context.state,
            objects: context.services.objects,
            uploads: context.services.uploads,
            issuer: context.issuer,
            keys: VODSessionKeys(master: context.master),
            limiter: RateLimiter(perSecond: place.appliesPerSecond),
            clock: context.clock
        )
    }
}

extension UGCHandler {
    fileprivate init(_ context: GatewayContext, _ uploads: VODUploads, isServed: Bool) {
        let pairs = KeyPairCache(state: context.state, master: context.master, clock: context.clock)
        let logger = context.logger
        self.init(
            uploads: uploads,
            isServed: isServed,
            signatures: VODSignatureCheck(
                own: context.master.each.map { .relay(from: $0) },
                pairs: { secretID async throws(UploadError) in
                    try await pairs.pairs(secretID, .mint).map { pairs in
                        (key: pairs.key, secrets: pairs.credentials.map(\.secretAccessKey))
                    }
                },
                revoked: context.revoked
            ),
            place: uploads.place,
            objectURL: context.objectURL,
            cors: context.cors,
            calls: context.metrics.counters(
                "sluice_tencent_calls_total",
                "Calls of the upload SDKs of Tencent Cloud VOD.",
                by: "call",
                "code"
            ),
            report: { call, error in
                logger.warning(
                    "a call of a Tencent VOD client could not be served",
                    metadata: ["call": "\(call)", "error": "\((error as? UploadError)?.message ?? "\(error)")"]
                )
            },
            clock: context.clock
        )
    }
}

/// Removes what expired sessions have left.
private struct SessionCleaning: Service {
    let uploads: VODUploads
    let interval: Duration
    let logger: Logger

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                do {
                    try await uploads.removeExpired()
                } catch {
                    logger.warning(
                        "expired uploads of Tencent VOD clients were not removed",
                        metadata: ["error": "\((error as? UploadError)?.message ?? "\(error)")"]
                    )
                }
                try? await Task.sleep(for: interval)
            }
        }
        // If one service returned early, the group would stop all the others.
        try? await gracefulShutdown()
    }
}
