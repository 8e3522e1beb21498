package import Administration
internal import Foundation
package import GatewayKit
internal import HTTPServer
package import HTTPWire
internal import Logging
internal import MetricsKit
package import ObjectGateway
internal import ServiceLifecycle
package import SettingsKit
internal import Signing
internal import Stores
internal import SystemIO
internal import Telemetry
internal import Transport
internal import UnixSignals
internal import UploadCore
internal import Vimeo

/// The gateway: adapters, modules and listener, assembled from the settings.
package struct GatewayServer: Sendable {
    private let settings: Settings
    private let logger: Logger
    private let sink: LogSink
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
    /// - Throws: `StartFailure` with a message for the operator; also if two modules claim the same requests.
    package init(_ settings: Settings) async throws(StartFailure) {
        self.settings = settings
        let logging = Self.makeLogger(settings)
        logger = logging.logger
        sink = logging.sink
        ProcessSetup.prepare()
        let pool = BlockingPool(threads: settings.limits.blockingThreads, label: "sluice.block")
        let sink = self.sink
        let metrics = MetricsRegistry()
        ProcessMetrics.declare(in: metrics) { sink.lostCount }
        adapters = try await GatewayAdapters(settings, logger, pool: pool, metrics: metrics)
        let gateway = settings.general.gateway
        let loopCount = gateway.loops == 0 ? ProcessInfo.processInfo.activeProcessorCount : gateway.loops
        loops = try starting { () throws(SystemError) in try EventLoopGroup(count: loopCount) }
        let process = GatewayProcess(logger: logger, metrics: metrics, pool: pool, loops: loops)
        parts = try await GatewayModules(settings, adapters, process)
        firstKey = parts.firstKey
        let (modules, context) = (parts.all, parts.context)
        let table = try starting { () throws(ClaimTable.Conflict) in try ClaimTable(modules) }
        routes = table.operations
        let listen = gateway.listen
        let address = try starting { () throws(SystemError) in
            try SocketAddress(resolving: listen.host, port: listen.port)
        }
        var configuration = settings.serverConfiguration
        configuration.head.lenientPath = VimeoModule.contentPath
        do throws(SystemError) {
            server = try HTTPServer(
                address: address,
                tls: context.tls,
                configuration: configuration,
                loops: loops,
                pool: pool,
                handler: GatewayHandler(
                    modules: modules,
                    table: table,
                    cors: context.cors,
                    hooks: parts.hooks
                ),
                observer: process.observation
            )
        } catch {
            throw StartFailure("cannot listen on \(address): \(error)")
        }
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

    /// Address of the gateway on this machine.
    package var localURL: String { url(of: server) }

    /// Address of the object endpoint on this machine, or `nil`.
    package var objectURL: String? { parts.objects.listeners.first.map(url) }

    private func url(of server: HTTPServer) -> String {
        (settings.general.tls.certificate == nil ? "http" : "https") + "://" + server.address.description
    }

    /// Serves until SIGTERM or SIGINT, then shuts down gracefully.
    ///
    /// - Parameter greeting: Written to standard output once connections are accepted and signals are handled; it may
    ///   go unread.
    /// - Throws: The error that stopped a service.
    package func run(greeting: String) async throws {
        let output = LogSink(descriptor: 1)
        logger.info("started", metadata: ["listen": "\(server.address)", "version": "\(Version.current)"])
        let listeners = ListenerService(
            servers: [server] + parts.all.flatMap(\.listeners),
            whenReady: { output.append(greeting, isUrgent: true) }
        )
        let group = ServiceGroup(
            configuration: ServiceGroupConfiguration(
                services: (parts.all.flatMap(\.services) + [listeners]).map { .init(service: $0) },
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
        for module in parts.all { module.close() }
        await adapters.close(isPair: parts.context.mismatch == nil)
        await loops.close()
        logger.info("stopped")
        flush(output)
    }

    /// Unread output is lost after a moment, so that it does not keep the process from exiting.
    private func flush(_ output: LogSink) {
        sink.flush(within: 2)
        output.flush(within: 0.5)
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
}

/// Accepts connections until shutdown.
private struct ListenerService: Service {
    let servers: [HTTPServer]
    let whenReady: @Sendable () -> Void

    func run() async throws {
        // The group installs its signal handlers before it starts its services.
        whenReady()
        await withGracefulShutdownHandler {
            await withTaskGroup { group in
                for server in servers { group.addTask { await server.run() } }
            }
        } onGracefulShutdown: {
            // Ends with the servers: `run` returns when the last connection has ended.
            for server in servers { Task { await server.shutDown() } }
        }
    }
}
