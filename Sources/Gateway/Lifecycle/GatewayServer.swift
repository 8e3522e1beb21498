internal import Bytes
internal import CSystem
internal import DiskStorage
internal import Foundation
internal import HTTPClient
internal import HTTPServer
package import HTTPWire
internal import Logging
internal import ObjectAPI
internal import S3Storage
internal import ServiceLifecycle
internal import Signing
internal import TencentVOD
internal import Transport
internal import Tus
internal import UnixSignals
internal import UploadCore
internal import Webhooks

/// The gateway: everything that serves, put together from its settings.
package struct GatewayServer: Sendable {
    private let settings: Settings
    private let logger: Logger
    private let sink: LogSink
    /// Locked as long as the gateway lives, also where its bytes are elsewhere.
    private let directory: DataDirectory
    private let state: GatewayState
    private let binding: StoreBinding
    /// Why state and storage are no pair; nothing is done by itself then.
    private let mismatch: StoreMismatch?
    private let service: UploadService
    private let dispatcher: HookDispatcher?
    private let pulls: PullService
    private let client: HTTPClient
    /// The store, if there is one, and what sends requests to it.
    private let store: (storage: S3Storage, client: HTTPClient)?
    private let server: HTTPServer
    /// `nil` if there is none.
    private let object: ObjectEndpoint?
    private let loops: EventLoopGroup
    /// The key to begin with, and how it came to be.
    package let firstKey: FirstKey
    /// The first key as clients of S3 use it; only when it was made now, as its secret is.
    package let firstPair: ObjectKeyPair?
    /// Every method and path template that is served, those of the dialects included.
    package let routes: [(method: HTTPMethod, template: String)]

    /// Opens data directory and state, and binds the listener.
    ///
    /// - Throws: `StartFailure`, whose text is for the operator.
    package init(_ settings: Settings) async throws(StartFailure) {
        self.settings = settings
        let logging = Self.makeLogger(settings)
        logger = logging.logger
        sink = logging.sink
        Self.prepareProcess()
        let pool = BlockingPool(threads: settings.limits.blockingThreads, label: "sluice.block")
        let sink = self.sink
        let metrics = Metrics { sink.lostCount }
        let observation = Observation(metrics: metrics, logger: logger)

        let directory = try Self.starting { () throws(DataDirectoryError) in
            try DataDirectory(at: settings.dataDirectory)
        }
        self.directory = directory
        for path in directory.tightened {
            logger.warning(
                "others had rights to a path of the data directory; now its owner alone has",
                metadata: ["path": "\(path)"]
            )
        }
        let master = try settings.master()
        let opened = try await GatewayState.open(settings, path: directory.statePath, logger)
        self.state = opened
        let state = opened.store
        let clock = opened.clock
        let storage: any MarkedStorage
        switch settings.storage {
        case .disk:
            guard settings.durability == .none || directory.keepsDurableRecords else {
                throw StartFailure(
                    "the file system of \(settings.dataDirectory) keeps no extended attributes (user.*), in which the gateway"
                        + " notes what survives a power cut. Use ext4, XFS or Btrfs, or set durability to none"
                )
            }
            storage = DiskStorage(directory: directory, durability: settings.storageDurability, pool: pool)
            store = nil
        case .s3:
            let client = settings.s3Client
            let s3 = try await settings.s3Storage(records: opened.blobs, client: client, pool: pool, clock: clock)
            storage = s3
            store = (s3, client)
            metrics.watch { s3.usage }
        }
        let binding = StoreBinding(state: state, marks: opened.marks, storage: storage)
        self.binding = binding
        let mismatch = try await binding.checked(logger)
        self.mismatch = mismatch
        let caller = settings.hookCaller(master)
        let hooks: (any UploadHooks)? = caller.map { caller in
            HTTPHooks(caller, clock: clock) { observation.hookFailed($0.rawValue, $1, $2) }
        }
        let service = UploadService(
            state: state,
            storage: storage,
            clock: clock,
            limits: settings.uploadLimits,
            observer: observation,
            hooks: hooks ?? NoHooks(),
            among: opened.leases,
            refusing: mismatch?.refusal,
            isSweepApproved: { () async throws(UploadError) in try await opened.marks.takeSweepApproval() }
        )
        opened.connect(service.bell)
        self.service = service
        let dispatcher = caller.map { caller in
            HookDispatcher(
                caller,
                state: state,
                service: service,
                clock: clock,
                onAttempt: { attempt in
                    guard let name = HookName(attempt.event.kind) else { return }
                    observation.hookTold(name.rawValue, attempt.event, attempt.outcome)
                },
                onFailure: { observation.observe(.failed(nil, $0)) }
            )
        }
        self.dispatcher = dispatcher
        do throws(UploadError) {
            firstKey = try await FirstKey.ensure(in: state, preset: settings.adminKey?.exposed, at: clock.now)
        } catch {
            throw StartFailure("the state can not be written: \(error.message)")
        }

        let client = HTTPClient(
            userAgent: "sluice/\(Version.current)",
            maximumTransfers: settings.pull.concurrency,
            addresses: settings.pullAddresses,
            authorities: settings.pull.authorities
        )
        self.client = client
        let pullSealer = PullSealer(master: master)
        let pulls = PullService(
            service: service,
            origin: settings.pullOrigin(client, clock),
            sealer: pullSealer,
            limits: settings.pullLimits,
            observe: observation.observe
        )
        self.pulls = pulls

        let loopCount =
            settings.gateway.loops == 0 ? ProcessInfo.processInfo.activeProcessorCount : settings.gateway.loops
        let loops = try Self.starting { () throws(SystemError) in try EventLoopGroup(count: loopCount) }
        self.loops = loops
        let tls: TLSContext? =
            if let certificate = settings.tls.certificate, let key = settings.tls.key {
                try Self.starting { () throws(TLSFailure) in
                    try TLSContext(certificatePath: certificate, keyPath: key)
                }
            } else {
                nil
            }
        let identities = settings.trustedIssuer(clock)
        let revoked = RevocationList(state: state, clock: clock) { issuer in
            TrustedIssuer.isMeant(by: issuer) ? identities?.trusts(issuer) ?? false : nil
        }
        let object = try await ObjectEndpoint.open(
            settings,
            master,
            in: ObjectEndpoint.Surroundings(
                service: service,
                state: state,
                revoked: revoked,
                identities: identities,
                clock: clock,
                loops: loops,
                pool: pool,
                tls: tls,
                observer: observation,
                metrics: metrics
            )
        )
        self.object = object

        let sealer = GrantSealer(master: master)
        let locator = UploadLocator(master: master)
        let authenticator = Authenticator(state: state, sealer: sealer, revoked: revoked, clock: clock)
        let access = Access(authenticator: authenticator, observer: observation)
        let publicURL = PublicURL(configured: settings.publicURL, trustedProxies: settings.trustedProxies)
        let objectURL = ObjectURL(
            configured: settings.object.publicURL,
            gateway: publicURL,
            port: object?.server.address.port
        )
        let bodyLimit = Int(clamping: settings.limits.bodyBytes)
        let names = UploadNames(service: service, locator: locator, access: access)
        let cors = settings.corsPolicy
        let tusSettings = TusSettings(
            cors: cors,
            deletesComplete: settings.uploads.deleteAfterCompletion,
            goneIsNotFound: settings.uploads.goneAs == .notFound
        )
        let urls = UploadURLs(service: service, revoked: settings.uploads.endWithKey ? revoked : nil)
        let plain = PlainUploads(
            service: service,
            locator: locator,
            authenticator: authenticator,
            urls: urls,
            publicURL: publicURL,
            interim: InterimResponses(policy: settings.uploads.interimResponses, publicURL: publicURL),
            tus: tusSettings,
            cors: cors
        )
        let issuer = CredentialIssuer(master: master)
        let clouds = settings.directClouds(pool: pool, clock: clock, observe: observation.cloudCalled)
        let routes =
            TencentAPI(
                issuer: settings.tencentIssuer(master),
                access: access,
                metrics: metrics,
                bodyLimit: bodyLimit,
                clock: clock
            ).routes
            + TusAPI(
                service: service,
                locator: locator,
                sealer: sealer,
                access: access,
                metrics: metrics,
                publicURL: publicURL,
                bodyLimit: bodyLimit,
                clock: clock,
                buckets: settings.buckets
            ).routes
            + SessionTokensAPI(
                issuer: issuer,
                clouds: clouds,
                access: access,
                metrics: metrics,
                bodyLimit: bodyLimit,
                maximumBytes: settings.limits.uploadBytes,
                clock: clock,
                region: settings.object.region
            ).routes
            + PresignAPI(
                issuer: issuer,
                clouds: clouds,
                uploads: MultipartUploads(service: service),
                access: access,
                metrics: metrics,
                objectURL: objectURL,
                bodyLimit: bodyLimit,
                maximumBytes: settings.limits.uploadBytes,
                clock: clock,
                region: settings.object.region
            ).routes
            + CompanionAPI(
                service: service,
                issuer: issuer,
                access: access,
                metrics: metrics,
                objectURL: objectURL,
                region: settings.object.region,
                bucket: settings.object.buckets.first,
                bodyLimit: bodyLimit,
                clock: clock
            ).routes
            + UploadsAPI(service: service, names: names, access: access, bodyLimit: bodyLimit, pulls: pulls).routes
            + EventsAPI(
                service: service,
                feed: EventFeed(service: service),
                names: names,
                access: access,
                urls: urls,
                watch: StreamWatch(revoked: revoked, clock: clock)
            ).routes
            + RevocationsAPI(
                state: state,
                revoked: revoked,
                access: access,
                bodyLimit: bodyLimit,
                clock: clock
            ).routes
            + PullAPI(
                pulls: settings.pull.isEnabled ? pulls : nil,
                sealer: pullSealer,
                addresses: settings.pullAddresses,
                access: access,
                maximumBytes: settings.limits.uploadBytes,
                bodyLimit: bodyLimit
            ).routes
            + MediaAPI(
                service: service,
                names: names,
                links: MediaLinks(master: master),
                access: access,
                publicURL: publicURL,
                bodyLimit: bodyLimit,
                clock: clock,
                revoked: revoked
            ).routes
            + QuotaAPI(service: service, access: access, bodyLimit: bodyLimit).routes
            + HooksAPI(
                state: state,
                access: access,
                bodyLimit: bodyLimit,
                wake: { dispatcher?.wake() }
            ).routes
            + OperationsAPI(
                state: state,
                storage: storage,
                mismatch: mismatch,
                metrics: metrics,
                access: access,
                hasOpenMetrics: settings.metrics.access == .open
            ).routes
            + plain.routes
        let tus = TusHandler(
            service: service,
            locator: locator,
            grants: { head throws(UploadError) in
                try await authenticator.grantToUpload(dialect: "tus", authorization: head.fields["Authorization"])
            },
            admits: { id throws(UploadError) in try await urls.check(id) },
            settings: tusSettings,
            baseURL: { publicURL.base(for: $0) + "/files" }
        )
        let handler = GatewayHandler(
            router: Router(routes),
            cors: cors,
            tus: tus,
            plain: plain,
            hooks: caller == nil ? nil : HookContext(locator: locator)
        )
        self.routes =
            routes.map { (method: $0.method, template: $0.template) }
            + TusHandler.routes.map { (method: $0.0, template: $0.1) }
            + PlainUploads.methodsOfFiles.map { (method: $0, template: "/files") }
        let listen = settings.gateway.listen
        let address = try Self.starting { () throws(SystemError) in
            try SocketAddress(resolving: listen.host, port: listen.port)
        }
        do throws(SystemError) {
            server = try HTTPServer(
                address: address,
                tls: tls,
                configuration: settings.serverConfiguration,
                loops: loops,
                pool: pool,
                handler: handler,
                observer: observation
            )
        } catch {
            throw StartFailure("can not listen on \(address): \(error)")
        }
        firstPair = try await Self.firstPair(firstKey, in: state, master)
    }

    private static func firstPair(
        _ firstKey: FirstKey,
        in state: any StateStore,
        _ master: MasterSecret
    ) async throws(StartFailure) -> ObjectKeyPair? {
        guard case .created(let secret) = firstKey else { return nil }
        do throws(UploadError) {
            let key = try await state.key(digest: APIKeySecret.digest(of: secret))
            return key.map { ObjectKeyPair($0, master: master) }
        } catch {
            throw StartFailure("the state can not be read: \(error.message)")
        }
    }

    /// Where the gateway can be reached on this machine.
    package var localURL: String {
        (settings.tls.certificate == nil ? "http" : "https") + "://" + server.address.description
    }

    /// Where clients of S3 reach it on this machine; `nil` if they do not.
    package var objectURL: String? {
        object.map { (settings.tls.certificate == nil ? "http" : "https") + "://" + $0.server.address.description }
    }

    /// Serves until SIGTERM or SIGINT, then stops in good order.
    ///
    /// - Parameter greeting: Goes to standard output when connections are accepted and signals are obeyed; nobody needs
    ///   to read it.
    /// - Throws: What stopped a service.
    package func run(greeting: String) async throws {
        let output = LogSink(descriptor: 1)
        logger.info("started", metadata: ["listen": "\(server.address)", "version": "\(Version.current)"])
        let group = ServiceGroup(
            configuration: ServiceGroupConfiguration(
                services: [
                    .init(
                        service: SweepService(
                            service: service,
                            binding: mismatch == nil ? binding : nil,
                            interval: settings.uploads.sweepEvery,
                            logger: logger
                        )
                    )
                ] + hookServices + [
                    .init(service: PullingService(pulls: settings.pull.isEnabled && mismatch == nil ? pulls : nil)),
                    .init(
                        service: ListenerService(
                            servers: [server] + (object.map { [$0.server] } ?? []),
                            whenReady: { output.append(greeting, isUrgent: true) }
                        )
                    ),
                ],
                gracefulShutdownSignals: [.sigterm, .sigint],
                logger: logger
            )
        )
        do {
            try await group.run()
        } catch {
            logger.critical("stopped by a failure", metadata: ["error": "\(error)"])
            flush(output)
            throw error
        }
        client.close()
        object?.close()
        // What is copied before this is older than what is started next.
        if mismatch == nil { try? await binding.advance() }
        if let store {
            await store.storage.finish(within: .seconds(5))
            store.client.close()
        }
        state.close()
        await loops.close()
        logger.info("stopped")
        flush(output)
    }

    /// What nobody reads within a moment is lost: it does not keep the process from ending.
    private func flush(_ output: LogSink) {
        sink.flush(within: 2)
        output.flush(within: 0.5)
    }

    private var hookServices: [ServiceGroupConfiguration.ServiceConfiguration] {
        guard let dispatcher, mismatch == nil else { return [] }
        return [
            .init(service: HookService(dispatcher: dispatcher)),
            .init(service: ProgressService(service: service, interval: settings.hooks.progressEvery)),
        ]
    }

    private static func starting<Success, Failure: Error>(
        _ body: () throws(Failure) -> Success
    ) throws(StartFailure) -> Success {
        do throws(Failure) {
            return try body()
        } catch {
            throw StartFailure("\(error)")
        }
    }

    private static func makeLogger(_ settings: Settings) -> (logger: Logger, sink: LogSink) {
        let isJSON = settings.log.format == .json
        let sink = LogSink { LineLogHandler.lossLine($0, isJSON: isJSON) }
        let level = Logger.Level(rawValue: settings.log.level.rawValue) ?? .info
        let logger = Logger(label: "sluice") { label in
            LineLogHandler(label: label, sink: sink, isJSON: isJSON, logLevel: level)
        }
        return (logger, sink)
    }

    /// A write to a closed connection is an error, not a signal; few heaps; and as many connections as the system allows.
    static func prepareProcess() {
        signal(SIGPIPE, SIG_IGN)
        OpenSSL.keepUntilTheEnd()
        // By default a heap for each of the threads that wait for disk and state, each with its own unused rest.
        _ = csys_limit_heaps(4)
        var limit = rlimit()
        if getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0, limit.rlim_cur < limit.rlim_max {
            limit.rlim_cur = limit.rlim_max
            setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        }
    }
}

/// Accepts connections until the process is to stop.
private struct ListenerService: Service {
    let servers: [HTTPServer]
    let whenReady: @Sendable () -> Void

    func run() async throws {
        // The group has taken over the signals before it starts its services.
        whenReady()
        await withGracefulShutdownHandler {
            await withTaskGroup { group in
                for server in servers { group.addTask { await server.run() } }
            }
        } onGracefulShutdown: {
            // Ends with the servers, whose `run` returns when the last connection has ended.
            for server in servers { Task { await server.shutDown() } }
        }
    }
}

/// Tells the app what happened.
private struct HookService: Service {
    let dispatcher: HookDispatcher

    func run() async throws {
        await cancelWhenGracefulShutdown { await dispatcher.run() }
        try? await gracefulShutdown()
    }
}

/// Records how far uploads have come, for the app.
private struct ProgressService: Service {
    let service: UploadService
    let interval: Duration

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                try? await Task.sleep(for: interval)
                await service.recordProgress()
            }
        }
        try? await gracefulShutdown()
    }
}

/// Removes what is over, again and again.
private struct SweepService: Service {
    let service: UploadService
    /// `nil` if state and storage are no pair.
    let binding: StoreBinding?
    let interval: Duration
    let logger: Logger

    func run() async throws {
        await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                let report = await service.sweep()
                do throws(UploadError) {
                    try await binding?.advance()
                } catch {
                    logger.warning("the mark of the storage was not renewed", metadata: ["error": "\(error.message)"])
                }
                if report.expired + report.completed + report.orphansRemoved + report.failures > 0 {
                    logger.info(
                        "swept",
                        metadata: [
                            "expired": "\(report.expired)", "completed": "\(report.completed)",
                            "orphans": "\(report.orphansRemoved)", "failures": "\(report.failures)",
                        ]
                    )
                }
                try? await Task.sleep(for: interval)
            }
        }
        // A service that returns before the others would stop them all.
        try? await gracefulShutdown()
    }
}

/// Fetches what is to be pulled.
private struct PullingService: Service {
    let pulls: PullService?

    func run() async throws {
        if let pulls { await cancelWhenGracefulShutdown { await pulls.run() } }
        // A service that returns before the others would stop them all.
        try? await gracefulShutdown()
    }
}
