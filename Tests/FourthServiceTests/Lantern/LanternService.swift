import Foundation
import GatewayKit
import HTTPWire
import MetricsKit
import ServiceLifecycle
import SettingsKit
import UploadCore
import UploadModel
import VODKit
import Webhooks

/// A sketch of a fourth video service, which does not exist and is not shipped: what a new one costs besides its folder.
///
/// Its clients send a video by tus to the URL that they get for it:
///
///     POST   /lantern/videos                     {"title", "tags", "size", "user"}   201 {"id", "uploadURL", …}
///     PUT    /lantern/videos/{id}                all bytes are sent                  200 {"id", …}
///     GET    /lantern/videos/{id}
///     GET    /lantern/videos?tag=…&limit=…&after=…
///     DELETE /lantern/videos/{id}
///
/// and the app's server gets an event for each video that is there, and for each that is deleted.
struct LanternService: VideoService {
    let name = "Lantern"
    let claims: [Claim]
    let services: [any Service]

    init(_ context: GatewayContext, _ tools: VideoTools) {
        let settings = context.settings[LanternSettings.self]
        let library = LanternLibrary(
            records: context.state,
            uploads: context.services.uploads,
            clock: context.clock,
            lifetime: TimeInterval(settings.uploadLifetime.components.seconds)
        )
        let handler = LanternHandler(
            library: library,
            authenticator: context.authenticator,
            locator: context.locator,
            publicURL: context.publicURL,
            bodyLimit: context.bodyLimit,
            calls: context.metrics.counters("sluice_lantern_calls_total", "Calls of Lantern.", by: "code"),
            report: context.reportFailures(of: "a call of Lantern")
        )
        claims = [
            Claim(
                ["/lantern", "/lantern/{collection}", "/lantern/{collection}/{video}"],
                dialect: .lantern,
                operations: LanternHandler.operations,
                refuse: { error, _ in LanternFailure(error).response }
            ) { await handler.respond(to: $0) }
        ]
        guard context.mismatch == nil else {
            services = []
            return
        }
        let work = BackgroundWork(context, of: name)
        let cleaning = work.loop(every: context.settings.uploads.sweepEvery, isFreeing: true, library.finish)
        let delivery = settings.callbackURL.map { url in
            Self.delivery(context, of: library.outbox, to: url, tools.signer, work.failing)
        }
        services = [cleaning] + [delivery].compactMap { $0 }
    }

    private static func delivery(
        _ context: GatewayContext,
        of outbox: MediaOutbox<LanternEvent>,
        to url: String,
        _ signer: HookSigner,
        _ failing: FailingRecords
    ) -> BackgroundLoop {
        let poster = context.settings.webhookPoster(url, signer)
        let clock = context.clock
        return EventDelivery(
            context,
            of: "Lantern",
            from: outbox,
            counting: BackgroundWork.attempts(context, of: "Lantern", as: "sluice_lantern_events_total"),
            failing: failing
        ) { _ throws(UploadError) in
            LanternEvent.Details()
        } post: { (claimed) throws(DeliveryFailure) in
            do throws(HookFailure) {
                let id = "msg_" + claimed.record.record.key
                let now = clock.now.unixSeconds
                _ = try await poster.post(claimed.event.document, id: id, at: now, timeout: .seconds(15))
            } catch {
                throw DeliveryFailure(error.description, retryAfter: error.retryAfter)
            }
        }.loop
    }
}

extension Response.Trace.Dialect {
    static let lantern = Self("lantern")
}

struct LanternSettings: SettingsSection {
    var callbackURL: String?
    var uploadLifetime = Duration.seconds(86_400)

    static let table: [Setting] = [
        setting("lantern.callbackURL", \.callbackURL, optional: .receiverURL, "Where events of Lantern are posted."),
        setting(
            "lantern.uploadLifetime",
            \.uploadLifetime,
            .duration(.seconds(60) ... .seconds(31_536_000)),
            "How long videos of Lantern are kept that no client says are complete."
        ),
    ]
}
