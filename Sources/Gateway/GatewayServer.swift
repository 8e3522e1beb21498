package import Administration
internal import Foundation
package import GatewayKit
internal import HTTPClient
internal import HTTPServer
package import HTTPWire
internal import Logging
internal import MetricsKit
package import ObjectGateway
internal import RESTKit
internal import ServiceLifecycle
package import SettingsKit
internal import Signing
internal import Stores
internal import SystemIO
internal import Telemetry
internal import Transport
internal import UnixSignals
internal import UploadCore
internal import UploadModel
package import VODKit

/// The gateway: adapters, modules and listener, assembled from the settings.
package struct GatewayServer: Sendable {
    private let settings: Settings
    private let logger: Logger
    private let sink: LogSink
    /// `nil` without traces.
    private let exporter: SpanExporter?
    private let adapters: GatewayAdapters
    private let parts: GatewayModules
    private let loops: EventLoopGroup
    private let server: HTTPServer
    /// The initial API key, and where it came from.
    package let firstKey: FirstKey
    /// The initial key as a pair for S3 clients; only if it was created now, because its secret is known only then.
    package let firstPair: ObjectKeyPair?
    /// Every served method and path template, including those of the dialects.
    package let routes: [(method: HTTPMethod, template: String)]

    /// Opens the data directory and the state, and binds the listeners.
    ///
    /// - Parameters:
    ///   - settings: All settings.
    ///   - services: Video services besides those of `GatewayModules`.
    /// - Throws: `StartFailure` with a message for the operator; also if two modules claim the same requests.
    package init(_ settings: Settings, adding services: [any VideoService.Type] = []) async throws(StartFailure) {
        self.settings = settings
        let logging = settings.log.makeLogger()
        logger = logging.logger
        sink = logging.sink
        ProcessSetup.prepare()
        // Now, while there are descriptors and somebody reads the reason.
        try starting { () throws(LibraryMissing) in try HTTPClient.load() }
        let sink = self.sink
        let metrics = MetricsRegistry()
        let threads = settings.limits.blockingThreads
        let pool = PoolMetrics.pool(threads: threads, label: "sluice.block", as: "files", in: metrics)
        ProcessMetrics.declare(in: metrics) { sink.lostCount }
        ProcessMetrics.declareSpace(of: settings.general.dataDirectory, in: metrics)
        adapters = try await GatewayAdapters(settings, logger, pool: pool, metrics: metrics)
        let gateway = settings.general.gateway
        let loopCount = gateway.loops == 0 ? ProcessInfo.processInfo.activeProcessorCount : gateway.loops
        loops = try starting { () throws(SystemError) in try EventLoopGroup(count: loopCount) }
        let sockets = InheritedSockets(environment: ProcessInfo.processInfo.environment)
        let collector = settings.tracing.collector(ProcessInfo.processInfo.environment)
        let tracer = collector.map { _ in Tracer(sampleRatio: settings.tracing.sampleRatio, metrics: metrics) }
        exporter =
            if let tracer, let collector { SpanExporter(tracer, collector, logging.logger) } else { nil }
        let process = GatewayProcess(
            logger: logger,
            logLevel: logging.level,
            metrics: metrics,
            pool: pool,
            loops: loops,
            sockets: sockets,
            tracer: tracer
        )
        parts = try await GatewayModules(settings, adapters, process, adding: services)
        firstKey = parts.firstKey
        let (modules, context) = (parts.all, parts.context)
        metrics.sample("sluice_leases_held", .gauge, "Uploads that requests to this node use now.") {
            [services = context.services] in Double(services.leasesHeld)
        }
        metrics.sample("sluice_recent_uploads", .gauge, "Open uploads whose records are kept for the next append.") {
            [services = context.services] in Double(services.recentUploads)
        }
        for isFound in [true, false] {
            metrics.sample(
                "sluice_recent_uploads_lookups_total",
                .counter,
                "Small appends, by whether the record of their upload was kept (found) or had to be read.",
                ["result": isFound ? "found" : "read"]
            ) { [services = context.services] in
                let lookups = services.recentLookups
                return Double(isFound ? lookups.found : lookups.read)
            }
        }
        let table = try starting { () throws(ClaimTable.Conflict) in try ClaimTable(modules) }
        routes = table.operations
        let listen = gateway.listen
        let address = try starting { () throws(SystemError) in
            try SocketAddress(resolving: listen.host, port: listen.port)
        }
        var configuration = context.serverConfiguration
        configuration.head.lenientPaths = modules.flatMap(\.lenientPaths).map {
            (gateway.basePath?.description ?? "") + $0
        }
        if gateway.expectsProxyHeader { configuration.proxyHeaderPeers = context.publicURL.trustedProxies }
        let handler = GatewayHandler(
            modules: modules,
            table: table,
            cors: context.cors,
            hooks: parts.hooks,
            basePath: gateway.basePath,
            publicURL: context.publicURL
        )
        let listener: Listener
        do throws(SystemError) {
            listener = try sockets.listener("gateway", or: address, loop: loops.next())
        } catch {
            throw StartFailure("cannot listen on \(address): \(error); choose another address (gateway.listen)")
        }
        server = HTTPServer(
            listener,
            tls: context.tls,
            configuration: configuration,
            loops: loops,
            pool: pool,
            handler: context.observed(
                ClientNamingHandler(
                    RequestLimitHandler(handler, context.requestLimits, context.signIns) { handler.refuse($0, $1) },
                    context.publicURL
                )
            ),
            observer: process.observation
        )
        firstPair = try await Self.firstPair(firstKey, in: context.state, context.master)
    }

    private static func firstPair(
        _ firstKey: FirstKey,
        in state: any KeyRecords,
        _ master: MasterSecret
    ) async throws(StartFailure) -> ObjectKeyPair? {
        guard case .created(let secret) = firstKey else { return nil }
        do throws(UploadError) {
            let key = try await state.key(digest: APIKeySecret.digest(of: secret))
            return key.map { ObjectKeyPair($0, master: master) }
        } catch {
            throw StartFailure("the state cannot be read: \(error.message)")
        }
    }

    /// Where the gateway listens: a URL with the base path, or `unix:` and the path of the socket.
    package var listenURL: String { url(of: server.address) + (server.address.unixPath == nil ? basePath : "") }

    /// The same for a client on this machine.
    package var localURL: String {
        server.address.unixPath == nil ? localURL(of: server) + basePath : listenURL
    }

    /// Where it is served; empty for the root.
    package var basePath: String { settings.general.gateway.basePath?.description ?? "" }

    /// Address of the object endpoint on this machine, or `nil`.
    package var objectURL: String? { parts.objects.listeners.first.map(localURL) }

    private func localURL(of server: HTTPServer) -> String {
        let local = ListenAddress(host: server.address.host, port: server.address.port).onThisMachine
        return url(of: SocketAddress(host: local.host, port: local.port))
    }

    private func url(of address: SocketAddress) -> String {
        if address.unixPath != nil { return address.host }
        return (settings.servesTLS ? "https" : "http") + "://" + address.description
    }

    /// Serves until SIGTERM or SIGINT, then shuts down gracefully.
    ///
    /// - Parameters:
    ///   - greeting: Written to standard output once connections are accepted and signals are handled; it may
    ///     go unread.
    ///   - reading: Reads the settings again at SIGHUP, from the same places as at the start.
    /// - Throws: The error that stopped a service.
    package func run(
        greeting: String,
        reading: @escaping @Sendable () throws(SettingsProblems) -> LoadedSettings
    ) async throws {
        let output = LogSink(descriptor: 1)
        logger.info("started", metadata: ["listen": "\(server.address)", "version": "\(Version.current)"])
        let listeners = ListenerService(
            servers: [server] + parts.all.flatMap(\.listeners),
            drain: parts.context.drain,
            drainTime: settings.timeouts.drain,
            grace: settings.timeouts.shutdownGrace,
            cutOff: { [modules = parts.all, limits = parts.context.requestLimits] in
                limits.cutOff()
                for module in modules { module.cutOff() }
            },
            whenReady: {
                output.append(greeting, isUrgent: true)
                ServiceManager.notify("READY=1")
            }
        )
        let unmapping = BackgroundLoop {
            if (try? await Task.sleep(for: Self.startTime)) != nil { ProcessSetup.unmapCodeOfTheStart() }
        }
        let reload = SettingsReload(settings, parts, logger, read: reading)
        let certificates = await CertificateWatch(
            parts.context.tls,
            reload,
            parts.acme,
            parts.context.metrics,
            logger
        )
        var services = parts.all.flatMap { module in module.services.map { (module.name, $0) } }
        if let exporter { services.append(("traces", ExportService(exporter: exporter))) }
        services += [("code of the start", unmapping), ("certificates", certificates), ("listeners", listeners)]
        let group = ServiceGroup(
            configuration: ServiceGroupConfiguration(
                // Without a name, the group prints the whole service, which takes milliseconds and may show secrets.
                services: services.map { .init(service: $1, serviceName: $0) },
                gracefulShutdownSignals: [.sigterm, .sigint],
                logger: logger
            )
        )
        // Also while it stops, which may take longer than the service manager waits for a message. Ends with this function.
        let watchdog = ServiceWatchdog(environment: ProcessInfo.processInfo.environment, loops: loops).map { watchdog in
            Task { await watchdog.run() }
        }
        defer { watchdog?.cancel() }
        do {
            try await group.run()
        } catch {
            logger.critical("stopped by a failure", metadata: ["error": "\(error)"])
            flush(output)
            throw error
        }
        // Before what takes time: the servers have ended, so no request adds spans.
        await exporter?.finish(within: Self.exportTime)
        for module in parts.all { module.close() }
        await adapters.close(isPair: parts.context.mismatch == nil)
        watchdog?.cancel()
        await watchdog?.value
        await loops.close()
        logger.info("stopped")
        flush(output)
    }

    /// After this time the start is over.
    private static let startTime = Duration.seconds(1)

    /// For the spans that wait at the end.
    private static let exportTime = Duration.seconds(3)

    /// Unread output is lost after a moment, so that it does not keep the process from exiting.
    private func flush(_ output: LogSink) {
        sink.flush(within: .seconds(2))
        output.flush(within: .milliseconds(500))
    }
}

/// Exports spans; what waits at the end is exported when all services have ended.
private struct ExportService: Service {
    let exporter: SpanExporter

    func run() async throws {
        await cancelWhenGracefulShutdown { await exporter.run() }
        try? await gracefulShutdown()
    }
}

/// Accepts connections until shutdown.
private struct ListenerService: Service {
    let servers: [HTTPServer]
    let drain: Drain
    /// Between the begin of the shutdown and the closing of the listeners.
    let drainTime: Duration
    /// Between the closing of the listeners and `cutOff`.
    let grace: Duration
    /// Ends what keeps requests waiting.
    let cutOff: @Sendable () -> Void
    let whenReady: @Sendable () -> Void

    func run() async throws {
        // The group installs its signal handlers before it starts its services.
        whenReady()
        await withGracefulShutdownHandler {
            await withTaskGroup { group in
                for server in servers { group.addTask { await server.run() } }
            }
        } onGracefulShutdown: {
            ServiceManager.notify("STOPPING=1")
            drain.begin()
            // Ends with the process at the latest; without requests it has no effect.
            Task {
                try? await Task.sleep(for: drainTime + grace)
                cutOff()
            }
            // They end with the servers: `run` returns when the last connection has ended.
            for server in servers {
                Task {
                    if drainTime > .zero { try? await Task.sleep(for: drainTime) }
                    await server.shutDown()
                }
            }
        }
    }
}
