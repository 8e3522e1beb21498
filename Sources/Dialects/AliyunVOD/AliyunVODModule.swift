internal import Callbacks
package import CloudCalls
internal import CoreMetrics
internal import Foundation
package import GatewayKit
internal import HTTPWire
internal import Logging
internal import MetricsKit
internal import ObjectGateway
package import ObjectStore
package import Pulls
package import RESTKit
package import ServiceLifecycle
internal import SettingsKit
internal import Signing
internal import UploadCore
internal import UploadModel
internal import VODKit

/// ApsaraVideo VOD of Alibaba Cloud: its API for app servers, and the media that upload SDKs bring through the object
/// endpoint.
package struct AliyunVODModule: GatewayModule {
    package let name = "ApsaraVideo VOD"
    package let routes: [Route]
    package let services: [any Service]
    /// The API at the root of the listener.
    package let api: any CloudAPI
    private let sender: CallbackClient?

    /// - Parameters:
    ///   - context: What every module receives.
    ///   - media: The media.
    ///   - starter: Starts pulls.
    package init(_ context: GatewayContext, _ media: AliyunVODMedia, starter: PullStarter) {
        let settings = context.settings
        let logger = context.logger
        let library = media.library
        let place = library.place
        let sender = settings.callbackClient(context.master, context.clock) { _ in }
        self.sender = sender
        let uploads = ApsaraUploads(
            place: place,
            library: library,
            uploads: context.services.uploads,
            issuer: context.issuer,
            clock: context.clock
        )
        let pulls = ApsaraPulls(uploads: uploads, starter: starter)
        let links = ApsaraLinks(
            issuer: context.issuer,
            objectURL: context.objectURL,
            region: settings.object.region,
            clock: context.clock
        )
        let reader = ApsaraUploadReader(place: place) { url in
            guard let sender else { return .notAllowed }
            return sender.problem(with: url)
        }
        let actions = ApsaraActions(
            uploads: uploads,
            pulls: pulls,
            callbacks: library.events.callbacks,
            reader: reader,
            links: links
        )
        let broker = ApsaraBroker(context, place)
        let service: any ApsaraService = broker ?? actions
        api = ApsaraAPIHandler(
            service: service,
            authentication: ApsaraAuthentication(
                issuer: context.issuer,
                revoked: context.revoked,
                pairs: context.keyPairCache()
            ),
            cors: context.cors,
            calls: context.metrics.counters(
                "sluice_aliyun_vod_calls_total",
                "Calls of the API of ApsaraVideo VOD.",
                by: "call",
                "code"
            ),
            report: { call, message in
                logger.warning(
                    "a call of the API of ApsaraVideo VOD could not be served",
                    metadata: ["call": "\(call)", "error": "\(message)"]
                )
            }
        )
        routes =
            AliyunAPI(
                service: service,
                access: context.access,
                minted: context.metrics.mintCounter("aliyun_vod_upload"),
                bodyLimit: context.bodyLimit,
                maximumBytes: settings.limits.uploadBytes,
                isDirect: broker != nil
            ).routes
        guard context.mismatch == nil else {
            services = []
            return
        }
        let work = BackgroundWork(context, of: "ApsaraVideo VOD")
        var services: [any Service] = [
            // What a gateway left unfinished when it died: deletions, and content that is not recorded.
            work.loop(every: .seconds(20), isFreeing: true, library.finishRemovals, library.lookAtOpen),
            // Apart, because it may not use what a full disk keeps for deletions.
            work.loop(
                every: settings.uploads.sweepEvery,
                context.state.addingTerms(to: ApsaraMedia.recordKind, as: ApsaraMedia.self)
            ),
        ]
        if starter.pulls != nil {
            services.append(work.loop(every: .seconds(2), wokenBy: pulls.bell, pulls.finishAll))
        }
        let attempts = BackgroundWork.attempts(
            context,
            of: "ApsaraVideo VOD",
            as: "sluice_aliyun_vod_events_total"
        )
        if let sender {
            let url = context.objectURL
            let poster = ApsaraEventPoster(
                callbacks: library.events.callbacks,
                sender: sender,
                objectURL: { bucket, key in
                    url.configured.map { "\(ObjectURL.origin(of: $0, port: nil))/\(bucket)/\(key)" }
                },
                clock: context.clock
            )
            let delivery = EventDelivery(
                context,
                of: "ApsaraVideo VOD",
                from: library.events.outbox,
                counting: attempts,
                failing: work.failing,
                details: library.events.target,
                post: poster.post
            )
            services.append(delivery.loop)
        }
        self.services = services
    }

    /// Aborts callbacks in progress.
    package func close() { sender?.close() }
}

/// The media of ApsaraVideo VOD, for the object endpoint.
package struct AliyunVODMedia: Sendable {
    let library: ApsaraLibrary

    package init(_ context: GatewayContext) {
        library = ApsaraLibrary(
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

    /// Decides about objects of media, and learns when one was stored or removed.
    package var ownership: any ObjectOwnership { library }
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
