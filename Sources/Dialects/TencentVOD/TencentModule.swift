package import CloudCalls
internal import Foundation
package import GatewayKit
internal import HTTPWire
internal import MetricsKit
package import ObjectGateway
package import ObjectStore
internal import Pulls
package import RESTKit
package import ServiceLifecycle
internal import SettingsKit
internal import Signing
internal import UploadCore
internal import UploadModel
package import VODKit
internal import Webhooks

/// Tencent Cloud VOD: signatures for its upload SDKs, and in `relay` mode the calls of these SDKs.
package struct TencentModule: VideoService {
    package let name = "Tencent VOD"
    package let routes: [Route]
    package let claims: [Claim]
    package let services: [any Service]
    package let ownership: (any ObjectOwnership)?
    /// The SDK for mini programs sends its requests for COS to this listener, with the host in a header.
    package let objectClaims: [ObjectClaim]
    /// API 3.0; `nil` in `direct` mode.
    package let api: (any CloudAPI)?
    /// Forwards calls in `direct` mode; `nil` if none are served there.
    private let cloud: CloudForwarder?

    package init(_ context: GatewayContext, _ tools: VideoTools) {
        let media = VODOwnership(context)
        ownership = media
        cloud = context.settings.tencentCloud
        routes =
            TencentAPI(
                issuer: context.settings.tencentIssuer(context.master),
                settings: context.settings.tencentVOD,
                access: context.access,
                reach: Self.reach(context.settings),
                minted: context.metrics.mintCounter("tencent_signature"),
                bodyLimit: context.bodyLimit,
                clock: context.clock
            ).routes
        guard context.settings.tencentMode == .relay else {
            claims = cloud.map { Self.claims(DirectUGCHandler(context, $0)) } ?? []
            (objectClaims, services, api) = ([], [], nil)
            return
        }
        objectClaims = Self.forwarded
        let (library, events) = (media.library, media.events)
        let uploads = VODUploads(context, library, events)
        let documents = VODDocuments(place: uploads.place, objectURL: context.objectURL)
        let calls = context.tencentCalls
        let pulls = VODPulls(uploads: uploads, starter: tools.starter)
        let actions = VODActions(
            uploads: uploads,
            pulls: pulls,
            library: library,
            events: events,
            documents: documents,
            isServed: context.objectListener != nil
        )
        api = VODAPIHandler(context, actions, calls)
        claims = Self.claims(UGCHandler(context, uploads, calls))
        guard context.mismatch == nil else {
            services = []
            return
        }
        let work = BackgroundWork(context, of: "Tencent VOD")
        let cleaning = work.loop(
            every: context.settings.uploads.sweepEvery,
            isFreeing: true,
            library.finishRemovals,
            uploads.removeExpired
        )
        let delivery = EventDelivery(context, events, documents, tools.signer, work.failing)
        // Makes media of what was pulled.
        let finishing = tools.starter.pulls.map { _ in
            work.loop(every: .seconds(2), wokenBy: pulls.bell, pulls.finishAll)
        }
        // A look of its own, which may not use what a full disk keeps for deletions.
        let listing = work.loop(
            every: context.settings.uploads.sweepEvery,
            context.state.addingTerms(to: VODMedia.kind, as: VODMedia.self)
        )
        services = [cleaning, listing] + [delivery?.loop, finishing].compactMap { $0 }
    }

    /// In direct mode there are no objects here, so a key that is limited to some may not sign.
    private static func reach(_ settings: Settings) -> @Sendable (Int64?) -> MintedRights.Reach {
        guard settings.tencentMode == .relay else { return { _ in .uploads } }
        let place = VODPlace(settings)
        return { application in place.reach(application) }
    }

    /// Aborts calls of the cloud in progress.
    package func close() { cloud?.close() }

    private static func claims(_ handler: some UGCResponder) -> [Claim] {
        let report: @Sendable (Request) async -> Response = { request in await handler.takeReport(request) }
        let refuse: @Sendable (UploadError, Request) -> Response = { error, request in
            var response = handler.refuse(error)
            handler.cors.decorate(&response, for: request.head)
            return response
        }
        return [
            Claim(
                [UGCHandler.path],
                dialect: .tencent,
                operations: [(method: .post, template: UGCHandler.path), (method: .get, template: UGCHandler.path)],
                refuse: refuse
            ) { request in await handler.respond(to: request) },
            Claim(
                ["/ugcupload_new"],
                dialect: .tencent,
                operations: [(method: .post, template: "/ugcupload_new")],
                refuse: refuse,
                respond: report
            ),
            Claim(
                ["/ugcupload"],
                dialect: .tencent,
                operations: [(method: .post, template: "/ugcupload")],
                refuse: refuse,
                respond: report
            ),
        ]
    }

    private static var forwarded: [ObjectClaim] {
        let condition = Claim.Condition(text: "with Vod-Forward-Cos") { head in
            head.fields.contains("Vod-Forward-Cos")
        }
        let root = "/\(VODPlace.root)"
        let templates = [
            root, "\(root)/{application}", "\(root)/{application}/{file}", "\(root)/{application}/{file}/{name}",
        ]
        return [
            ObjectClaim(["/"], dialect: .cos, when: condition), ObjectClaim(templates, dialect: .cos, when: condition),
        ]
    }
}

extension Response.Trace.Dialect {
    /// Calls of its SDKs for uploads and of its API.
    static let tencent = Self("tencent")
}

extension GatewayContext {
    /// Calls, by name and code.
    var tencentCalls: CounterTable {
        metrics.counters(
            "sluice_tencent_calls_total",
            "Calls of the upload SDKs of Tencent Cloud VOD, and of its API.",
            by: "call",
            "code"
        )
    }
}

extension VODUploads {
    fileprivate init(_ context: GatewayContext, _ library: VODLibrary, _ events: VODEvents) {
        let place = VODPlace(context.settings)
        self.init(
            place: place,
            records: context.state,
            library: library,
            events: events,
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
    fileprivate init(_ context: GatewayContext, _ uploads: VODUploads, _ calls: CounterTable) {
        self.init(
            uploads: uploads,
            isServed: context.objectListener != nil,
            signatures: VODSignatureCheck(
                own: context.master.each.map { .relay(from: $0) },
                place: uploads.place,
                pairs: { [pairs = context.keyPairs] secretID async throws(UploadError) in
                    try await pairs.pairs(secretID, .mint).map { pairs in
                        (key: pairs.key, secrets: pairs.credentials.map(\.secretAccessKey), noteUse: pairs.noteUse)
                    }
                },
                revoked: context.revoked,
                skew: context.settings.limits.clockSkewSeconds
            ),
            place: uploads.place,
            objectURL: context.objectURL,
            cors: context.cors,
            calls: calls,
            report: context.reportFailures(of: "a call of a Tencent VOD client"),
            clock: context.clock
        )
    }
}

extension VODAPIHandler {
    fileprivate init(_ context: GatewayContext, _ actions: VODActions, _ calls: CounterTable) {
        self.init(
            actions: actions,
            own: context.master.each.map { .relay(from: $0) },
            pairs: { [pairs = context.keyPairs] secretID, scope async throws(UploadError) in
                try await pairs.pairs(secretID, scope).map { pairs in
                    (key: pairs.key, secrets: pairs.credentials.map(\.secretAccessKey), noteUse: pairs.noteUse)
                }
            },
            nonces: context.nonces,
            calls: calls,
            report: context.reportFailures(of: "a call of the Tencent VOD API"),
            clock: context.clock
        )
    }
}

extension EventDelivery<VODEvent, VODEvents.Facts> {
    /// `nil` if events are not posted.
    fileprivate init?(
        _ context: GatewayContext,
        _ events: VODEvents,
        _ documents: VODDocuments,
        _ signer: HookSigner,
        _ failing: FailingRecords
    ) {
        guard events.mode == .push, let url = context.settings.tencentVOD.callbackURL else { return nil }
        let poster = context.settings.webhookPoster(url, signer)
        let clock = context.clock
        self.init(
            context,
            of: "Tencent VOD",
            from: events.outbox,
            counting: BackgroundWork.attempts(context, of: "Tencent VOD", as: "sluice_tencent_events_total"),
            failing: failing
        ) { (found) throws(UploadError) in
            try await events.facts(of: found.content)
        } post: { (claimed) throws(DeliveryFailure) in
            let event = claimed.event
            do throws(HookFailure) {
                _ = try await poster.post(
                    documents.post(claimed),
                    id: "msg_\(event.fileID)\(event.kind.rawValue)\(event.contentID ?? "")",
                    at: clock.now.unixSeconds,
                    timeout: .seconds(15)
                )
            } catch {
                throw DeliveryFailure(error.description, retryAfter: error.retryAfter)
            }
        }
    }
}
