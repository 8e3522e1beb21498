package import GatewayKit
internal import HTTPClient
internal import MetricsKit
package import RESTKit
package import ServiceLifecycle
internal import SettingsKit
internal import Telemetry
package import UploadCore
internal import UploadModel

/// Uploads that the gateway fetches from URLs.
package struct PullModule: GatewayModule {
    package let name = "pull"
    package let routes: [Route]
    package let services: [any Service]
    /// The pull jobs, for other modules to report.
    package let pulls: PullService
    /// Starts pulls, for other modules.
    package let starter: PullStarter
    private let clients: [HTTPClient]

    package init(_ context: GatewayContext) {
        let settings = context.settings
        func client(_ addresses: AddressPolicy) -> HTTPClient {
            HTTPClient(
                userAgent: "sluice/\(Version.current)",
                purpose: "pull",
                maximumTransfers: settings.pull.concurrency,
                maximumThreads: HTTPClient.threadsForContent,
                addresses: addresses,
                authorities: settings.pull.authorities
            )
        }
        let usual = client(settings.pullAddresses)
        let publicOnly = settings.pull.allow.isEmpty ? usual : client(.publicOnly())
        clients = [usual, publicOnly]
        let pulls = PullService(
            uploads: context.services.uploads,
            pulls: context.state,
            origin: settings.pullOrigin(usual, publicOnly: publicOnly, context.clock),
            sealer: PullSealer(master: context.master),
            limits: settings.pullLimits,
            revoked: context.revoked,
            endsWithKey: settings.uploads.revokeWithKey,
            tracer: context.tracer,
            observe: PullReport(context.metrics, context.logger).observe
        )
        self.pulls = pulls
        context.metrics.sample("sluice_pulls_active", .gauge, "Pulls that this process works on.") {
            Double(pulls.runningCount)
        }
        starter = PullStarter(
            pulls: settings.pull.isEnabled ? pulls : nil,
            sealer: PullSealer(master: context.master),
            addresses: settings.pullAddresses,
            allowsUsers: settings.pull.allowsUsers
        )
        routes =
            PullAPI(
                starter: starter,
                access: context.access,
                publicURL: context.publicURL,
                maximumBytes: settings.limits.uploadBytes,
                bodyLimit: context.bodyLimit
            ).routes
        services = settings.pull.isEnabled && context.mismatch == nil ? [PullingService(pulls: pulls)] : []
    }

    package func close() { for client in clients { client.close() } }
}

/// Runs the pull jobs.
private struct PullingService: Service {
    let pulls: PullService

    func run() async throws {
        await cancelWhenGracefulShutdown { await pulls.run() }
        // If one service returned early, the group would stop all the others.
        try? await gracefulShutdown()
    }
}
