internal import ACME
internal import Administration
internal import AliyunVOD
internal import Companion
internal import GatewayKit
internal import Identity
internal import LiveEvents
internal import ManagementAPI
internal import ObjectGateway
internal import Operations
internal import PlainUploads
internal import Pulls
package import SettingsKit
internal import Stores
internal import Telemetry
internal import TencentVOD
internal import Tus
internal import UploadCore
internal import UploadModel
internal import VODKit
internal import Vimeo
internal import Webhooks

/// The parts of the gateway: the context and the list of modules.
struct GatewayModules {
    let context: GatewayContext
    /// The initial API key, and where it came from.
    let firstKey: FirstKey
    /// In the order in which their services start.
    let all: [any GatewayModule]
    /// Collects what hooks receive about a request; `nil` if the app has no hooks.
    let hooks: HookContext?
    private let hookCaller: HookCaller?
    private let hookSigner: HookSigner
    /// `nil` if the gateway began without issuers.
    private let users: LiveAppUserIssuers?
    /// Has none if users of no provider get credentials.
    private let identities: LiveTrustedIssuer
    /// The object endpoint.
    let objects: ObjectModule
    let acme: ACMEModule

    /// The video services, in the order in which their APIs are asked; each has its settings in `GatewaySettings`.
    private static let videoServices: [any VideoService.Type] = [
        AliyunVODModule.self, TencentModule.self, VimeoModule.self,
    ]

    /// - Parameters:
    ///   - settings: All settings.
    ///   - adapters: State and storage.
    ///   - process: Event loops, pools, log and metrics.
    ///   - added: Video services besides `videoServices`.
    /// - Throws: `StartFailure` with a message for the operator.
    init(
        _ settings: Settings,
        _ adapters: GatewayAdapters,
        _ process: GatewayProcess,
        adding added: [any VideoService.Type] = []
    ) async throws(StartFailure) {
        let master = try settings.master()
        let stores = try await adapters.stores(settings, process.logger)
        let opened = adapters.state
        let hookReport = HookReport(process.metrics, process.logger)
        let signer = HookSigner(settings.hookSigner(master))
        let caller = try settings.hookCaller(signer, hookReport, process.metrics, process.logger)
        (hookCaller, hookSigner) = (caller, signer)
        let asked: (any UploadHooks)? = caller.map { caller in
            BlockingHooks(caller, clock: stores.clock, onFailure: hookReport.failed)
        }
        let services = UploadServices(
            state: stores.state,
            storage: stores.storage,
            clock: stores.clock,
            limits: settings.uploadLimits,
            observer: process.observation,
            hooks: asked ?? NoHooks(),
            among: opened.leases,
            refusing: stores.mismatch?.refusal,
            isSweepApproved: { () async throws(UploadError) in try await opened.marks.takeSweepApproval() }
        )
        opened.connect(services.events.bell)
        let identities = LiveTrustedIssuer(settings.trustedIssuer(stores.clock))
        self.identities = identities
        let issuers = try settings.appUserIssuers(stores.clock)
        let users = settings.jwt.issuers.issuers.isEmpty ? nil : LiveAppUserIssuers(issuers)
        self.users = users
        let context = try GatewayContext(
            settings,
            process,
            stores,
            services,
            master,
            objectListener: try ObjectModule.listener(settings, process),
            users: users
        ) { issuer in
            guard TrustedIssuer.isMeant(by: issuer) else { return nil }
            return identities.trusts(issuer) || users?.trusts(issuer) == true
        }
        // After all checks of the settings, because the key is shown only once.
        do throws(UploadError) {
            firstKey = try await FirstKey.ensure(
                in: stores.state,
                preset: settings.general.adminKey?.exposed,
                at: stores.clock.now
            )
        } catch {
            throw StartFailure("the state cannot be written: \(error.message)")
        }
        self.context = context
        hooks = caller.map { [locator = context.locator] _ in HookContext(locator: locator) }
        acme = try ACMEModule(context)
        let pulls = PullModule(context)
        let tools = VideoTools(starter: pulls.starter, signer: signer)
        let videos = (Self.videoServices + added).map { $0.init(context, tools) }
        objects = try await ObjectModule(
            context,
            identities: identities,
            owners: videos.compactMap(\.ownership),
            claims: videos.flatMap(\.objectClaims)
        )
        let first: [any GatewayModule] = [
            SweepModule(context), HooksModule(context, caller: caller, report: hookReport), pulls,
        ]
        let others: [any GatewayModule] = [
            CloudAPIs(videos.compactMap(\.api), clock: context.clock, skew: settings.limits.clockSkewSeconds),
            TusModule(context),
            PlainUploads(context),
            objects,
            CompanionModule(context),
            ManagementModule(context, pulls: pulls.pulls),
            EventsModule(context),
            OperationsModule(context),
            acme,
        ]
        all = first + videos + others
    }
}

extension GatewayModules {
    /// Keys of the settings that `follow` applies.
    static let liveKeys = GatewayContext.liveKeys.union(HookCaller.liveKeys)
        .union(IdentitySettings.table.map(\.key)).union(["hooks.secret", "jwt.issuers"])

    /// Tells which changed settings `follow` can apply.
    ///
    /// - Parameters:
    ///   - key: Of the setting.
    ///   - changed: The keys of all changed settings.
    ///   - old: The settings at the start.
    ///   - new: The changed settings.
    /// - Returns: Whether it can.
    static func isLive(_ key: String, among changed: Set<String>, from old: Settings, to new: Settings) -> Bool {
        switch key {
        // Nothing begins or ends to be called. What goes on to be called would not know the other secret.
        case _ where key.hasPrefix("hooks.") && (old.hooks.url == nil) != (new.hooks.url == nil): false
        // Listeners would expect headers of others than the peers that they are configured for.
        case "trustedProxies": changed.isDisjoint(with: ["gateway.proxyProtocol", "object.proxyProtocol"])
        // The bucket of its users is not there yet.
        case _ where key.hasPrefix("identity.") && new.identity.issuer != nil && new.identity.bucket == nil:
            !old.object.buckets.isEmpty
        // Nothing asks for them.
        case "jwt.issuers" where old.jwt.issuers.issuers.isEmpty: false
        default: liveKeys.contains(key)
        }
    }

    /// What settings name in files, read again.
    struct Reread {
        fileprivate let users: AppUserIssuers?
    }

    /// Reads what settings name in files, also if they name the same files.
    ///
    /// - Parameter settings: The present ones, with new values of settings that are live.
    /// - Returns: For `follow`.
    /// - Throws: `StartFailure` if a file cannot be used.
    func reread(_ settings: Settings) throws(StartFailure) -> Reread {
        guard let users else { return Reread(users: nil) }
        return Reread(users: try settings.appUserIssuers(context.clock, replacing: users.issuers))
    }

    /// Takes over what was read again.
    func follow(_ files: Reread) {
        guard let users, let issuers = files.users else { return }
        users.replace(with: issuers)
        context.authenticator.expireUsers()
    }

    /// Takes over settings that can change while the gateway runs.
    ///
    /// - Parameter settings: The present ones, with new values of settings that are live.
    func follow(_ settings: Settings) {
        hookSigner.replace(with: settings.hookSigner(context.master))
        hookCaller?.follow(settings)
        identities.replace(with: settings.trustedIssuer(context.clock, replacing: identities.issuer))
        context.follow(settings)
    }
}

/// The settings of the gateway.
package enum GatewaySettings {
    /// All sections, in the order of the documentation.
    package static let catalog = SettingsCatalog([
        GeneralSettings.self,
        ACMESettings.self,
        DatabaseSettings.self,
        S3StoreSettings.self,
        ObjectSettings.self,
        IdentitySettings.self,
        JWTSettings.self,
        AWSSettings.self,
        AliyunSettings.self,
        AliyunVODSettings.self,
        TencentSettings.self,
        TencentVODSettings.self,
        VimeoSettings.self,
        LimitSettings.self,
        TimeoutSettings.self,
        UploadSettings.self,
        QuotaSettings.self,
        WebhookSettings.self,
        EventSettings.self,
        PullSettings.self,
        CORSSettings.self,
        MetricsSettings.self,
        TracingSettings.self,
        LogSettings.self,
    ])

    /// Keys of settings that SIGHUP can change.
    package static let liveKeys = GatewayModules.liveKeys
}
