internal import Callbacks
package import CloudCalls
internal import CoreMetrics
internal import Foundation
package import GatewayKit
internal import HTTPWire
internal import MetricsKit
internal import ObjectGateway
package import ObjectStore
internal import Pulls
package import RESTKit
package import ServiceLifecycle
internal import SettingsKit
internal import Signing
internal import UploadCore
internal import UploadModel
package import VODKit

/// ApsaraVideo VOD of Alibaba Cloud: its API for app servers, and the media that upload SDKs bring through the object
/// endpoint.
package struct AliyunVODModule: VideoService {
    package let name = "ApsaraVideo VOD"
    package let routes: [Route]
    package let services: [any Service]
    package let ownership: (any ObjectOwnership)?
    package let api: (any CloudAPI)?
    private let sender: CallbackClient?

    package init(_ context: GatewayContext, _ tools: VideoTools) {
        let settings = context.settings
        let library = ApsaraLibrary(context)
        ownership = library
        sender = settings.callbackClient(context.master, context.clock) { _ in }
        let uploads = ApsaraUploads(
            place: library.place,
            library: library,
            uploads: context.services.uploads,
            issuer: context.issuer,
            clock: context.clock
        )
        let pulls = ApsaraPulls(uploads: uploads, starter: tools.starter)
        let broker = ApsaraBroker(context, library.place)
        let service: any ApsaraService = broker ?? ApsaraActions(context, uploads, pulls, sender)
        api = ApsaraAPIHandler(context, service)
        routes =
            AliyunAPI(
                service: service,
                access: context.access,
                minted: context.metrics.mintCounter("aliyun_vod_upload"),
                bodyLimit: context.bodyLimit,
                maximumBytes: settings.limits.uploadBytes,
                isDirect: broker != nil
            ).routes
        // Also if nothing is posted, so that a dashboard finds them.
        let attempts = BackgroundWork.attempts(context, of: name, as: "sluice_aliyun_vod_events_total")
        guard context.mismatch == nil else {
            services = []
            return
        }
        let work = BackgroundWork(context, of: name)
        var services: [any Service] = [
            // What a gateway left unfinished when it died: deletions, and content that is not recorded.
            work.loop(every: .seconds(20), isFreeing: true, library.finishRemovals, library.lookAtOpen),
            // Apart, because it may not use what a full disk keeps for deletions.
            work.loop(
                every: settings.uploads.sweepEvery,
                context.state.addingTerms(to: ApsaraMedia.recordKind, as: ApsaraMedia.self)
            ),
        ]
        if tools.starter.pulls != nil {
            services.append(work.loop(every: .seconds(2), wokenBy: pulls.bell, pulls.finishAll))
        }
        if let sender {
            services.append(Self.delivery(context, library.events, sender, attempts, work.failing))
        }
        self.services = services
    }

    /// Aborts callbacks in progress.
    package func close() { sender?.close() }

    private static func delivery(
        _ context: GatewayContext,
        _ events: ApsaraEvents,
        _ sender: CallbackClient,
        _ attempts: CounterTable,
        _ failing: FailingRecords
    ) -> BackgroundLoop {
        let url = context.objectURL
        let poster = ApsaraEventPoster(
            callbacks: events.callbacks,
            sender: sender,
            objectURL: { bucket, key in
                url.configured.map { "\(ObjectURL.origin(of: $0, port: nil))/\(bucket)/\(key)" }
            },
            clock: context.clock
        )
        return EventDelivery(
            context,
            of: "ApsaraVideo VOD",
            from: events.outbox,
            counting: attempts,
            failing: failing,
            details: events.target,
            post: poster.post
        ).loop
    }
}

extension Response.Trace.Dialect {
    static let aliyun = Self("aliyun")
}

extension ApsaraLibrary {
    fileprivate init(_ context: GatewayContext) {
        self.init(
            place: ApsaraPlace(context.settings.aliyunVOD),
            records: context.state,
            objects: context.services.objects,
            uploads: context.services.uploads,
            parts: context.services.parts,
            events: ApsaraEvents(
                records: context.state,
                callbacks: ApsaraCallbacks(records: context.state, master: context.master, clock: context.clock),
                clock: context.clock
            ),
            clock: context.clock
        )
    }
}

extension ApsaraActions {
    fileprivate init(
        _ context: GatewayContext,
        _ uploads: ApsaraUploads,
        _ pulls: ApsaraPulls,
        _ sender: CallbackClient?
    ) {
        self.init(
            uploads: uploads,
            pulls: pulls,
            callbacks: uploads.library.events.callbacks,
            reader: ApsaraUploadReader(place: uploads.place) { url in
                guard let sender else { return .notAllowed }
                return sender.problem(with: url)
            },
            links: ApsaraLinks(
                issuer: context.issuer,
                objectURL: context.objectURL,
                region: context.settings.object.region,
                clock: context.clock
            )
        )
    }
}

extension ApsaraAPIHandler {
    fileprivate init(_ context: GatewayContext, _ service: any ApsaraService) {
        self.init(
            service: service,
            authentication: ApsaraAuthentication(
                issuer: context.issuer,
                revoked: context.revoked,
                pairs: context.keyPairs,
                nonces: context.nonces
            ),
            cors: context.cors,
            calls: context.metrics.counters(
                "sluice_aliyun_vod_calls_total",
                "Calls of the API of ApsaraVideo VOD.",
                by: "call",
                "code"
            ),
            report: context.reportFailures(of: "a call of the API of ApsaraVideo VOD")
        )
    }
}

extension ApsaraBroker {
    /// `nil` in `relay` mode.
    fileprivate init?(_ context: GatewayContext, _ place: ApsaraPlace) {
        let settings = context.settings.aliyunVOD
        let endpoint = settings.endpoint ?? "https://vod.\(settings.region).aliyuncs.com"
        guard settings.mode == .direct,
            let forwarder = AliyunVODForwarder(
                context,
                to: endpoint,
                isSignedInParameters: settings.signature == .v1
            )
        else { return nil }
        self.init(
            place: place,
            cloud: { (action, parameters, isXML, subject) async throws(CloudForwarder.Failure) in
                try await forwarder.perform(action, parameters, isXML: isXML, for: subject)
            },
            // The cloud calls back, whoever may be called from here.
            reader: ApsaraUploadReader(place: place) { _ in nil },
            workflows: settings.workflows,
            records: context.state,
            uploads: context.services.uploads,
            clock: context.clock
        )
    }
}
