internal import CoreMetrics
internal import Foundation
package import GatewayKit
internal import HTTPWire
internal import MetricsKit
internal import ObjectGateway
internal import Pulls
package import RESTKit
package import ServiceLifecycle
internal import SettingsKit
internal import Tus
internal import UploadCore
internal import UploadModel
package import VODKit

/// Vimeo's API, and the links to which its clients send bytes.
package struct VimeoModule: VideoService {
    package let name = "Vimeo"
    package let routes: [Route]
    package let claims: [Claim]
    package let services: [any Service]

    /// Below it are the links for PUT, whose clients state lengths in their own way: iOS's `Content-Length: 3000000.0`,
    /// and the probe of vimeo.php 1.3.0 (protocol notes §5.3, §5.4).
    package let lenientPaths = ["/vimeo/"]

    package init(_ context: GatewayContext, _ tools: VideoTools) {
        let videos = VimeoVideoCalls(context, tools.starter)
        let work = BackgroundWork(context, of: name)
        let direct = VimeoDirect(context, videos, work)
        let tokens = VimeoTokens(
            master: context.master,
            records: context.state,
            revoked: context.revoked,
            clock: context.clock
        )
        let handler = VimeoAPIHandler(context, tokens, videos, direct?.broker)
        routes =
            VimeoTokensAPI(
                handler: handler,
                tokens: tokens,
                access: context.access,
                minted: context.metrics.mintCounter("vimeo_token"),
                bodyLimit: context.bodyLimit,
                isDirect: direct != nil
            ).routes
        claims = Self.claims(handler) + [Self.claim(VimeoLinkHandler(context, videos, direct?.transfers))]
        let cleaning = work.loop(every: .seconds(600), isFreeing: true, videos.library.lookAtOpen)
        // Apart, because it may not use what a full disk keeps for deletions.
        let listing = work.loop(
            every: context.settings.uploads.sweepEvery,
            context.state.addingTerms(to: VimeoVideo.recordKind, as: VimeoVideo.self)
        )
        services = context.mismatch == nil ? [cleaning, listing] + (direct?.services ?? []) : []
    }

    /// The calls of the API.
    private static func claims(_ handler: VimeoAPIHandler) -> [Claim] {
        func api(_ templates: String...) -> Claim {
            let root = templates[0].split(separator: "/")[0]
            let operations = VimeoAPIHandler.operations.filter { $0.template.split(separator: "/")[0] == root }
            return Claim(templates, dialect: .vimeo, operations: operations, refuse: { handler.refuse($0, $1) }) {
                await handler.respond(to: $0)
            }
        }
        return [
            api("/me", "/me/{collection}", "/me/{collection}/"),
            api("/users", "/users/{user}", "/users/{user}/{collection}", "/users/{user}/uploads/{ticket}"),
            api("/videos", "/videos/{video}", "/videos/{video}/{collection}", "/videos/{video}/{collection}/{item}"),
            api("/oauth", "/oauth/{call}", "/oauth/authorize/client"),
            api("/tokens"),
        ]
    }

    /// The links.
    private static func claim(_ bytes: VimeoLinkHandler) -> Claim {
        Claim(
            ["/vimeo", "/vimeo/{kind}", "/vimeo/{kind}/{link}"],
            dialect: .vimeo,
            operations: [
                (.head, "/vimeo/files/{upload}"), (.patch, "/vimeo/files/{upload}"),
                (.put, "/vimeo/videos/{link}"), (.post, "/vimeo/videos/{link}"),
                (.put, "/vimeo/pictures/{link}"), (.put, "/vimeo/texttracks/{link}"),
            ],
            refuse: { bytes.refuse($0, $1) }
        ) { await bytes.respond(to: $0) }
    }
}

extension Response.Trace.Dialect {
    static let vimeo = Self("vimeo")
}

extension GatewayContext {
    fileprivate var reportVimeoFailures: @Sendable (_ call: String, _ message: String) -> Void {
        reportFailures(of: "a call of Vimeo's API")
    }

    /// Vimeo's links only bring bytes; the URL of an upload also ends it, and tells of it.
    fileprivate var vimeoLocator: UploadLocator { UploadLocator(master: master, limitedTo: "vimeo") }
}

extension VimeoVideoCalls {
    fileprivate init(_ context: GatewayContext, _ starter: PullStarter) {
        let library = VimeoLibrary(
            records: context.state,
            uploads: context.services.uploads,
            clock: context.clock,
            lifetime: Double(context.settings.vimeo.uploadLifetime.components.seconds),
            quota: context.services.quota,
            storage: context.storage,
            pulls: starter.pulls
        )
        self.init(
            library: library,
            uploads: VimeoUploads(library: library, starter: starter),
            links: VimeoLinks(master: context.master, locator: context.vimeoLocator),
            media: MediaLinks(master: context.master),
            publicURL: context.publicURL,
            bodyLimit: context.bodyLimit
        )
    }
}

extension VimeoAPIHandler {
    fileprivate init(
        _ context: GatewayContext,
        _ tokens: VimeoTokens,
        _ videos: VimeoVideoCalls,
        _ broker: VimeoBroker?
    ) {
        let rate = context.settings.vimeo.callsPerMinute
        self.init(
            tokens: tokens,
            authenticator: context.authenticator,
            rates: VimeoRates(perMinute: rate),
            // One user has a tenth of them.
            revocations: VimeoRates(perMinute: 10 * rate),
            videos: videos,
            service: broker ?? videos,
            isDirect: broker != nil,
            cors: context.cors,
            bodyLimit: context.bodyLimit,
            calls: context.metrics.counters("sluice_vimeo_calls_total", "Calls of Vimeo's API.", by: "call", "code"),
            report: context.reportVimeoFailures,
            clock: context.clock
        )
    }
}

extension VimeoLinkHandler {
    fileprivate init(_ context: GatewayContext, _ videos: VimeoVideoCalls, _ transfers: VimeoTransfers?) {
        let urls = context.urls
        var tusSettings = context.tusSettings
        // The real service forgets what was deleted.
        tusSettings.goneIsNotFound = true
        self.init(
            library: videos.library,
            uploads: videos.uploads,
            links: videos.links,
            tus: TusHandler(
                service: context.services.uploads,
                locator: context.vimeoLocator,
                grants: { _ throws(UploadError) in
                    throw UploadError(.forbidden(scope: nil), "Uploads are created by POST /me/videos.")
                },
                admits: { id throws(UploadError) in try await urls.check(id) },
                settings: tusSettings,
                baseURL: { context.publicURL.base(for: $0) + "/vimeo/files" }
            ),
            urls: urls,
            cors: context.cors,
            arrived: { transfers?.arrived($0) },
            report: context.reportVimeoFailures
        )
    }
}

/// What `direct` mode adds.
private struct VimeoDirect {
    let broker: VimeoBroker
    let transfers: VimeoTransfers
    let services: [any Service]

    /// `nil` in `relay` mode.
    init?(
        _ context: GatewayContext,
        _ local: VimeoVideoCalls,
        _ work: BackgroundWork
    ) {
        // In both modes, so that a dashboard finds it.
        let counters = context.metrics.counters(
            "sluice_vimeo_transfers_total",
            "Files that were sent on to Vimeo, or could not be.",
            by: "outcome"
        )
        let settings = context.settings.vimeo
        guard settings.mode == .direct, let token = settings.accessToken else { return nil }
        let report = context.reportVimeoFailures
        let cloud = VimeoForwarder(context, token: token, origin: settings.endpoint ?? "https://api.vimeo.com")
        let upstream = VimeoUpstream(cloud: cloud, clock: context.clock, report: report)
        let videos = VimeoCloudVideos(
            records: context.state,
            clock: context.clock,
            interval: settings.pollInterval.components.seconds
        )
        let transfers = VimeoTransfers(
            library: local.library,
            videos: videos,
            storage: context.storage,
            upstream: upstream,
            isShared: context.isShared,
            failing: work.failing,
            count: { counters[$0.rawValue].increment() },
            report: report
        )
        let watch = VimeoWatch(
            videos: videos,
            document: { (uri) throws(VimeoError) in
                try await upstream.document(.get, uri, fields: VimeoUpstream.videoFields)
            },
            delete: { await upstream.delete($0) },
            lifetime: settings.uploadLifetime.components.seconds
        )
        self.transfers = transfers
        broker = VimeoBroker(local: local, upstream: upstream, videos: videos, transfers: transfers)
        services = [BackgroundLoop { await transfers.run() }, work.loop(every: watch.pause, watch.look)]
    }
}
