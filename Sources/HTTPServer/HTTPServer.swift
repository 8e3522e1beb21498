internal import Glibc
package import HTTPWire
internal import Synchronization
package import SystemIO
package import Transport

/// An HTTP/1.1 server: accepts connections, assigns them to event loops, and shuts down gracefully.
package final class HTTPServer: Sendable {
    private struct State {
        var connections: [UInt64: Connection] = [:]
        /// Number of connections of each address, if there is a limit.
        var counts: [AddressBlock: Int] = [:]
        /// As what each limited connection is counted.
        var blocks: [UInt64: AddressBlock] = [:]
        var nextID: UInt64 = 0
        var isStopping = false
        /// The acceptor, while it waits until a connection ends.
        var waiter: UnsafeContinuation<Void, Never>?
        /// `run`, while it waits for the last connection.
        var runner: UnsafeContinuation<Void, Never>?
    }

    private let context: ServerContext
    /// One for each loop.
    private let workers: [RequestWorkers]
    private let listener: Listener
    private let tls: TLSContext?
    private let state = Mutex(State())

    /// `run` starts accepting connections.
    ///
    /// - Parameters:
    ///   - listener: On one of the loops.
    ///   - tls: `nil` for plain HTTP.
    ///   - configuration: Limits and times.
    ///   - loops: Serve the connections.
    ///   - pool: For work that blocks.
    ///   - handler: Answers the requests.
    ///   - observer: Learns of everything.
    ///   - refusals: Makes the response to a request that reaches no handler; `nil` for a problem document.
    package init(
        _ listener: Listener,
        tls: TLSContext?,
        configuration: ServerConfiguration,
        loops: EventLoopGroup,
        pool: BlockingPool,
        handler: any RequestHandler,
        observer: any ServerObserver,
        refusals: ServerRefusal.Writer? = nil
    ) {
        context = ServerContext(
            configuration: configuration,
            pool: pool,
            handler: handler,
            observer: observer,
            refusals: refusals
        )
        workers = loops.loops.map(RequestWorkers.init)
        self.tls = tls
        self.listener = listener
    }

    /// Binds `address`.
    ///
    /// - Throws: `SystemError` of `socket`, `bind` or `listen`.
    package convenience init(
        address: SocketAddress,
        tls: TLSContext?,
        configuration: ServerConfiguration,
        loops: EventLoopGroup,
        pool: BlockingPool,
        handler: any RequestHandler,
        observer: any ServerObserver,
        refusals: ServerRefusal.Writer? = nil
    ) throws(SystemError) {
        self.init(
            try Listener(address, loop: loops.next()),
            tls: tls,
            configuration: configuration,
            loops: loops,
            pool: pool,
            handler: handler,
            observer: observer,
            refusals: refusals
        )
    }

    /// The bound address, with the port that the system chose.
    package var address: SocketAddress { listener.address }

    /// Number of open connections.
    package var connectionCount: Int { state.withLock { $0.connections.count } }

    /// How often a connection lost its task, because it was idle, since the start.
    package var parkedConnections: UInt64 { context.parkCount.load(ordering: .relaxed) }

    /// Serves until `shutDown` is called and the last connection has ended.
    package func run() async {
        await withTaskExecutorPreference(listener.loop) { await accept() }
        await withUnsafeContinuation { continuation in
            let isOver = state.withLock { state in
                if state.connections.isEmpty { return true }
                state.runner = continuation
                return false
            }
            if isOver { continuation.resume() }
        }
        for workers in workers { workers.loop.execute { workers.close() } }
    }

    /// Runs on the listener's loop and never awaits anything on another loop: after a call into another loop's actor it
    /// would continue there.
    private func accept() async {
        let observer = context.observer
        var turn = 0
        while let accepted = await listener.accept(onFailure: { observer.acceptFailed($0) }) {
            let block = limitedBlock(of: accepted.peer)
            if let block, !reserve(block) {
                close(accepted.descriptor)
                observer.connectionRefused()
                continue
            }
            let connection = Connection(
                accepted,
                workers: workers[turn % workers.count],
                tls: tls,
                server: context
            )
            turn &+= 1
            guard let id = register(connection) else {
                close(accepted.descriptor)
                continue
            }
            if let block { state.withLock { $0.blocks[id] = block } }
            connection.start(
                admits: { [self] client in
                    guard let block = limitedBlock(of: client) else { return true }
                    guard reserve(block) else {
                        observer.connectionRefused()
                        return false
                    }
                    state.withLock { $0.blocks[id] = block }
                    return true
                },
                whenEnded: { [self] in forget(id) }
            )
            await waitForRoom()
        }
    }

    /// Stops accepting, ends idle connections, and lets running requests finish within the grace time.
    ///
    /// Then it cuts off their content (handlers keep what an upload has received so far) and at last closes the
    /// remaining connections.
    ///
    /// Returns when all connections have ended.
    package func shutDown() async {
        let connections = state.withLock { state in
            state.isStopping = true
            return Array(state.connections.values)
        }
        let listener = listener
        listener.loop.execute { listener.close() }
        resumeAcceptor()
        for connection in connections { await connection.drain() }
        if await isEmpty(within: context.configuration.shutdownGrace) { return }
        for connection in remaining { await connection.cutOff() }
        if await isEmpty(within: .seconds(10)) { return }
        for connection in remaining { await connection.abort() }
        _ = await isEmpty(within: .seconds(5))
    }

    private var remaining: [Connection] { state.withLock { Array($0.connections.values) } }

    private func isEmpty(within limit: Duration) async -> Bool {
        let end = ContinuousClock.now + limit
        while connectionCount > 0 {
            if ContinuousClock.now >= end { return false }
            try? await Task.sleep(for: .milliseconds(10))
        }
        return true
    }

    /// - Returns: `nil` if the server is stopping and the connection was not registered.
    private func register(_ connection: Connection) -> UInt64? {
        state.withLock { state in
            if state.isStopping { return nil }
            state.nextID += 1
            state.connections[state.nextID] = connection
            return state.nextID
        }
    }

    /// - Returns: What counts the connections of a peer; `nil` if it may have any number.
    private func limitedBlock(of peer: SocketAddress) -> AddressBlock? {
        let configuration = context.configuration
        guard configuration.maximumConnectionsPerAddress > 0 else { return nil }
        let host = peer.host
        if configuration.unlimitedPeers.contains(host) { return nil }
        return AddressBlock(host)
    }

    /// - Returns: `false` if the address has as many connections as it may have.
    private func reserve(_ block: AddressBlock) -> Bool {
        state.withLock { state in
            let count = state.counts[block] ?? 0
            guard count < context.configuration.maximumConnectionsPerAddress else { return false }
            state.counts[block] = count + 1
            return true
        }
    }

    private func forget(_ id: UInt64) {
        let runner = state.withLock { state in
            if let block = state.blocks.removeValue(forKey: id), let count = state.counts[block] {
                state.counts[block] = count > 1 ? count - 1 : nil
            }
            state.connections[id] = nil
            guard state.connections.isEmpty else { return nil as UnsafeContinuation<Void, Never>? }
            defer { state.runner = nil }
            return state.runner
        }
        runner?.resume()
        resumeAcceptor()
    }

    private func waitForRoom() async {
        await withUnsafeContinuation { continuation in
            let mustWait = state.withLock { state in
                guard state.connections.count >= context.configuration.maximumConnections, !state.isStopping
                else { return false }
                state.waiter = continuation
                return true
            }
            if !mustWait { continuation.resume() }
        }
    }

    private func resumeAcceptor() {
        let waiter = state.withLock { state in
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.resume()
    }
}
