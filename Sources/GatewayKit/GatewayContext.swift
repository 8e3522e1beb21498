package import CloudCalls
internal import Digests
internal import Foundation
package import HTTPWire
internal import HTTPServer
package import Logging
package import MetricsKit
package import RESTKit
package import SettingsKit
package import Signing
package import SystemIO
package import Telemetry
package import Transport
package import UploadCore
package import UploadModel

/// What every module receives: the domain and the shared parts.
package struct GatewayContext {
    package let settings: Settings
    package let logger: Logger
    package let logLevel: LogLevel
    package let master: MasterSecret
    package let clock: any WallClock
    package let pool: BlockingPool
    package let loops: EventLoopGroup
    /// `nil` if there is to be no certificate.
    package let tls: TLSContext?

    package let state: any StateStore
    package let storage: any MarkedStorage
    /// Storage buckets that a grant may name.
    package let buckets: [String]
    package let binding: StoreBinding
    /// Why state and storage do not belong together; no background work runs then.
    package let mismatch: StoreMismatch?
    /// Whether other processes have the same state.
    package let isShared: Bool
    package let services: UploadServices

    package let metrics: MetricsRegistry
    package let observation: Observation
    /// `nil` without traces.
    package let tracer: Tracer?
    package let drain = Drain()

    package let revoked: RevocationList
    package let authenticator: Authenticator
    package let access: Access
    package let locator: UploadLocator
    package let sealer: GrantSealer
    package let names: UploadNames
    package let urls: UploadURLs
    package let publicURL: PublicURL
    package let cors: CORSPolicy
    /// Peers that may have any number of connections.
    let unlimitedPeers: PeerList
    package let requestLimits: RequestLimits
    package let signIns: SignInLog
    /// Where the object endpoint listens; `nil` if this process has none.
    package let objectListener: Listener?
    /// Finds the API keys behind key pairs.
    package let keyPairs: KeyPairCache
    /// Nonces of calls that have a time.
    package let nonces = UsedNonces()

    /// The handler, with what the log says of each request, and a span if there are traces.
    package func observed(_ handler: any RequestHandler) -> any RequestHandler {
        let noted = RequestNoteHandler(handler, logger)
        return tracer.map { TracingHandler(noted, $0) } ?? noted
    }

    /// - Parameter calls: Begins the message, such as `a call of Vimeo's API`.
    /// - Returns: What logs a call that could not be served.
    package func reportFailures(of calls: String) -> @Sendable (_ call: String, _ message: String) -> Void {
        { [logger] call, message in
            logger.warning("\(calls) could not be served", metadata: ["call": "\(call)", "error": "\(message)"])
        }
    }

    /// Maximum content of a request that is not an upload, in bytes.
    package var bodyLimit: Int { Int(clamping: settings.limits.bodyBytes) }

    /// - Parameters:
    ///   - settings: All settings.
    ///   - process: Event loops, pools, log and metrics.
    ///   - stores: State and storage.
    ///   - services: The upload services on these stores.
    ///   - master: The secret from which all others are derived.
    ///   - objectListener: Where the object endpoint listens; `nil` for none.
    ///   - users: Verifies tokens of app users; `nil` if none are accepted.
    ///   - trusts: Whether an identity provider, looked up by the name it has in place of an API key, is still trusted;
    ///     `nil` if no provider has that name.
    /// - Throws: `StartFailure` with a message for the operator if a certificate cannot be read.
    package init(
        _ settings: Settings,
        _ process: GatewayProcess,
        _ stores: GatewayStores,
        _ services: UploadServices,
        _ master: MasterSecret,
        objectListener: Listener? = nil,
        users: (any AppUserTokens)? = nil,
        trusts: @escaping @Sendable (_ issuer: String) -> Bool?
    ) throws(StartFailure) {
        self.settings = settings
        self.master = master
        self.services = services
        (logger, logLevel) = (process.logger, process.logLevel)
        (pool, loops) = (process.pool, process.loops)
        self.objectListener = objectListener
        (metrics, observation, tracer) = (process.metrics, process.observation, process.tracer)
        (state, storage, clock) = (stores.state, stores.storage, stores.clock)
        (buckets, binding, mismatch) = (stores.buckets, stores.binding, stores.mismatch)
        isShared = stores.isShared
        tls =
            if settings.servesTLS {
                try Self.tls(settings, master, at: stores.clock.now)
            } else {
                nil
            }
        revoked = RevocationList(
            state: stores.state,
            clock: stores.clock,
            skew: Double(settings.limits.clockSkewSeconds),
            trusts: trusts
        )
        sealer = GrantSealer(master: master)
        locator = UploadLocator(master: master)
        authenticator = Authenticator(
            state: stores.state,
            sealer: sealer,
            revoked: revoked,
            users: users,
            clock: stores.clock
        )
        keyPairs = KeyPairCache(state: stores.state, master: master, clock: stores.clock, uses: authenticator.uses)
        access = Access(authenticator: authenticator, observer: process.observation)
        publicURL = PublicURL(
            configured: settings.general.publicURL,
            basePath: settings.general.gateway.basePath,
            trustedProxies: PeerList(settings.general.trustedProxies)
        )
        unlimitedPeers = PeerList(settings.unlimitedPeers)
        names = UploadNames(service: services.uploads, locator: locator, access: access)
        cors = settings.corsPolicy
        requestLimits = RequestLimits(settings.limits, publicURL, process.metrics)
        signIns = SignInLog(AuditLog(process.logger), hasIssuers: users != nil)
        urls = UploadURLs(service: services.uploads, revoked: settings.uploads.revokeWithKey ? revoked : nil)
    }
}

extension GatewayContext {
    private static func tls(
        _ settings: Settings,
        _ master: MasterSecret,
        at now: Date
    ) throws(StartFailure) -> TLSContext {
        let acme = settings.acme
        let standIn = SelfSignedCertificate(standingInFor: acme.domains, at: Int64(now.timeIntervalSince1970))
        do throws(TLSFailure) {
            return try TLSContext(
                settings.general.tls.files,
                kept: settings.keptCertificate,
                standIn: acme.isOn ? TLSIdentity(certificate: standIn.encoded, key: standIn.key.encoded) : nil,
                clientAuthorities: settings.general.tls.clientAuthorities,
                tickets: TLSTicketKeys { period in
                    master.each.map { $0.key(for: "TLS tickets v1 \(period)", count: TLSTicketKeys.size) }
                },
                challenges: acme.isOn && acme.challenge == .tlsALPN ? TLSChallenges() : nil
            )
        } catch {
            let authorities = settings.general.tls.clientAuthorities == nil ? "" : ", tls.clientAuthorities"
            throw StartFailure("\(error) (settings tls.certificate, tls.key\(authorities))")
        }
    }
}

/// What runs the gateway's work, and where it reports.
package struct GatewayProcess: Sendable {
    package let logger: Logger
    package let logLevel: LogLevel
    package let metrics: MetricsRegistry
    package let observation: Observation
    /// `nil` without traces.
    package let tracer: Tracer?
    /// For blocking work.
    package let pool: BlockingPool
    package let loops: EventLoopGroup
    /// Listening sockets of the service manager.
    package let sockets: InheritedSockets

    package init(
        logger: Logger,
        logLevel: LogLevel,
        metrics: MetricsRegistry,
        pool: BlockingPool,
        loops: EventLoopGroup,
        sockets: InheritedSockets = InheritedSockets(),
        tracer: Tracer? = nil
    ) {
        self.tracer = tracer
        self.logger = logger
        self.logLevel = logLevel
        self.metrics = metrics
        observation = Observation(metrics: metrics, logger: logger)
        self.pool = pool
        self.loops = loops
        self.sockets = sockets
    }
}

/// State and storage, opened.
package struct GatewayStores: Sendable {
    package let state: any StateStore
    package let storage: any MarkedStorage
    package let clock: any WallClock
    /// Buckets that a grant may name.
    package let buckets: [String]
    package let binding: StoreBinding
    /// Why state and storage do not belong together.
    package let mismatch: StoreMismatch?
    /// Whether other processes have the same state.
    package let isShared: Bool

    package init(
        state: any StateStore,
        storage: any MarkedStorage,
        clock: any WallClock,
        buckets: [String],
        binding: StoreBinding,
        mismatch: StoreMismatch?,
        isShared: Bool = false
    ) {
        self.state = state
        self.storage = storage
        self.clock = clock
        self.buckets = buckets
        self.binding = binding
        self.mismatch = mismatch
        self.isShared = isShared
    }
}
