import Bytes
import Foundation
import HTTPClient
import HTTPServer
import HTTPWire
import Signing
import SluiceTesting
import StateRecords
import Synchronization
import SystemIO
import Testing
import Transport
import UploadCore
import UploadModel
import Webhooks

@testable import PostgresState

/// Nodes that share a database, each with its own connections, services and clock.
@Suite("Many nodes", .enabled(if: PostgresServer.isAvailable, "\(PostgresServer.missing)"), .timeLimit(.minutes(10)))
struct ManyNodesTests {
    /// The parts of one process.
    private struct Node {
        let state: PostgresState
        let fuse = Fuse()
        let faulty: FaultyState
        let clock: ManualClock
        let services: UploadServices

        /// All nodes of a test share `schema` and `storage`; `skew` is the number of seconds that this node's clock is
        /// ahead.
        init(_ schema: String, storage: InMemoryStorage, skew: TimeInterval = 0) async throws {
            let server = try PostgresServer.shared.get()
            state = try await PostgresState.open(PostgresSettings(url: server.url(schema: schema), connections: 4))
            faulty = FaultyState(state, fuse: fuse)
            clock = ManualClock(Date(timeIntervalSinceNow: skew))
            services = UploadServices(
                state: faulty,
                storage: storage,
                clock: clock,
                limits: UploadLimits(maximumBytes: 1000, lifetime: 3600, orphanAge: 0).patient,
                observer: RecordingObserver()
            )
        }

        /// From now on, nothing that it does has an effect.
        func die(_ running: Task<Void, Never>?) {
            fuse.burn(afterCalls: 0)
            running?.cancel()
        }
    }

    private let storage = InMemoryStorage()

    /// Waits until `condition` holds; fails after many attempts.
    private func wait(until condition: () async throws -> Bool) async throws {
        for _ in 0..<12_000 {
            if try await condition() { return }
            try await Task.sleep(for: .milliseconds(10))
        }
        Issue.record("what was waited for did not happen")
    }

    // MARK: Deliveries

    /// An app that receives events, and records which node sent each of them.
    private final class App: RequestHandler {
        private struct Contents {
            var calls: [(path: String, event: String)] = []
            var delivered: [String] = []
        }

        private let contents = Mutex(Contents())
        private let response: @Sendable (_ path: String, _ call: Int, _ isFirst: Bool) async -> Status
        private let loops: EventLoopGroup
        private let server = Mutex<(HTTPServer, Task<Void, Never>)?>(nil)

        /// `answer` gets the path, the number of the call on this path, and whether the event arrives for the first
        /// time.
        init(
            response: @escaping @Sendable (_ path: String, _ call: Int, _ isFirst: Bool) async -> Status
        ) throws {
            self.response = response
            loops = try EventLoopGroup(count: 1)
        }

        func start() throws -> UInt16 {
            let server = try HTTPServer(
                address: SocketAddress(host: "127.0.0.1", port: 0),
                tls: nil,
                configuration: ServerConfiguration(),
                loops: loops,
                pool: BlockingPool(threads: 1, label: "app"),
                handler: self,
                observer: Nobody()
            )
            self.server.withLock { $0 = (server, Task { await server.run() }) }
            return server.address.port
        }

        func stop() async {
            // The server holds its handler, which is this app.
            guard let (server, running) = server.withLock({ $0.take() }) else { return }
            await server.shutDown()
            await running.value
            await loops.close()
        }

        /// Ids of events in the order in which they were accepted.
        var delivered: [String] { contents.withLock { $0.delivered } }

        func respond(to request: Request) async -> Response {
            let event = request.head.fields["webhook-id"] ?? ""
            let path = request.head.target.rawPath
            let (call, isFirst) = contents.withLock { contents in
                let isFirst = !contents.calls.contains { $0.event == event }
                contents.calls.append((path, event))
                return (contents.calls.count { $0.path == path }, isFirst)
            }
            let status = await response(path, call, isFirst)
            if status == 200 { contents.withLock { $0.delivered.append(event) } }
            return Response(status)
        }

        private struct Nobody: ServerObserver {
            func connectionOpened() {}
            func connectionClosed() {}
            func requestFinished(_ summary: RequestSummary) {}
        }
    }

    private func dispatcher(_ node: Node, _ url: String, timeout: Duration, margin: TimeInterval) -> HookDispatcher {
        let settings = HookSettings(events: Set(HookName.allCases), timeout: timeout, concurrency: 8)
        let poster = WebhookPoster(
            url: url,
            client: HTTPClient(userAgent: "test/1", addresses: .any),
            signer: HookSigner(WebhookSigner(key: [UInt8](repeating: 1, count: 32)))
        )
        let caller = HookCaller(settings, poster)
        return HookDispatcher(
            caller,
            state: node.faulty,
            service: node.services.uploads,
            events: node.services.events.bell,
            clock: node.clock,
            margin: margin,
            onAttempt: { _ in },
            onFailure: { _ in }
        )
    }

    private static let kinds: [EventRecord.Kind] = [.created, .completed, .terminated, .created, .completed]

    /// Records 200 events of 40 uploads on several nodes.
    ///
    /// - Returns: Ids of the events of each upload, in order.
    private func record(_ nodes: [Node]) async throws -> [[String]] {
        try await withThrowingTaskGroup(of: [String].self) { group in
            for number in 0..<40 {
                let node = nodes[number % nodes.count]
                group.addTask {
                    let upload = Upload(
                        id: UploadID.generate(at: node.clock.now),
                        dialect: "tus",
                        subject: "alice",
                        principal: "key_1",
                        length: 5,
                        createdAt: node.clock.now
                    )
                    var ids: [String] = []
                    for kind in Self.kinds {
                        let event = EventRecord.sample(kind, of: upload)
                        try await node.state.record(event)
                        ids.append(event.id)
                    }
                    return ids
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
    }

    @Test("two nodes whose clocks differ by ten minutes deliver each event once, in order for each upload")
    func deliveriesOnce() async throws {
        let schema = try PostgresServer.shared.get().makeSchema()
        let nodes = [
            try await Node(schema, storage: storage, skew: 300), try await Node(schema, storage: storage, skew: -300),
        ]
        defer { nodes.forEach { $0.state.close() } }
        // Some are refused at first.
        let app = try App { _, call, isFirst in isFirst && call % 9 == 0 ? 503 : 200 }
        let port = try app.start()
        let dispatchers = nodes.enumerated().map { number, node in
            // Longer than the test can last.
            dispatcher(node, "http://127.0.0.1:\(port)/\(number)", timeout: .seconds(600), margin: 60)
        }
        let running = dispatchers.map { dispatcher in Task { await dispatcher.run() } }
        async let recorded = record(nodes)
        try await wait {
            dispatchers.forEach { $0.wake() }
            return app.delivered.count >= 200
        }
        try await wait { try await nodes[0].state.nextDelivery() == nil }
        for task in running { task.cancel() }
        for task in running { await task.value }
        await app.stop()
        let delivered = app.delivered
        #expect(delivered.count == 200)
        for ids in try await recorded { #expect(delivered.filter(ids.contains) == ids) }
        let deliveries = try await nodes[0].state.deliveries(DeliveryQuery(limit: 1000))
        #expect(deliveries.allSatisfy { $0.delivery?.state == .delivered })
        #expect(deliveries.contains { $0.delivery?.attempts == 2 })
    }

    @Test("events that a node had claimed when it died are delivered by another")
    func deliveriesOfTheDead() async throws {
        let schema = try PostgresServer.shared.get().makeSchema()
        let nodes = [try await Node(schema, storage: storage), try await Node(schema, storage: storage)]
        defer { nodes.forEach { $0.state.close() } }
        let doomed = Mutex<Task<Void, Never>?>(nil)
        let first = nodes[0]
        let app = try App { path, call, _ in
            // It dies during this delivery, and cannot record it.
            if path == "/0", call == 10 { first.die(doomed.withLock { $0 }) }
            return 200
        }
        let port = try app.start()
        let dispatchers = nodes.enumerated().map { number, node in
            dispatcher(node, "http://127.0.0.1:\(port)/\(number)", timeout: .seconds(1), margin: 1)
        }
        let recorded = try await record(nodes)
        let dying = Task { await dispatchers[0].run() }
        doomed.withLock { $0 = dying }
        try await wait { first.fuse.isBurnt }
        dying.cancel()
        await dying.value
        let living = Task { await dispatchers[1].run() }
        try await wait { try await nodes[1].state.nextDelivery() == nil }
        living.cancel()
        await living.value
        await app.stop()
        let delivered = app.delivered
        #expect(Set(delivered).count == 200)
        #expect(delivered.count > 200, "the one that could not be recorded was not delivered again")
        for ids in recorded {
            var seen: Set<String> = []
            #expect(delivered.filter { ids.contains($0) && seen.insert($0).inserted } == ids)
        }
    }

    @Test("a node that stops returns undelivered events")
    func deliveriesGivenBack() async throws {
        let schema = try PostgresServer.shared.get().makeSchema()
        let node = try await Node(schema, storage: storage)
        defer { node.state.close() }
        let calls = Mutex(0)
        let isOver = Mutex(false)
        let app = try App { _, _, _ in
            calls.withLock { $0 += 1 }
            while !isOver.withLock({ $0 }) { try? await Task.sleep(for: .milliseconds(10)) }
            return 200
        }
        let dispatcher = dispatcher(node, "http://127.0.0.1:\(try app.start())/", timeout: .seconds(600), margin: 60)
        _ = try await record([node])
        let running = Task { await dispatcher.run() }
        try await wait { calls.withLock { $0 } == 8 }
        #expect(try await node.state.claimDeliveries(limit: 1000, for: 0).count == 32)
        running.cancel()
        await running.value
        let claimed = try await node.state.claimDeliveries(limit: 1000, for: 600)
        #expect(claimed.count == 40)
        #expect(claimed.allSatisfy { $0.delivery?.attempts == 0 })
        isOver.withLock { $0 = true }
        await app.stop()
    }

    // MARK: Pulls

    /// Contents that consist of their own names, in two halves; the second half of some never arrives.
    private final class Origin: PullOrigin {
        private let asked = Mutex<[String: Int]>([:])
        private let stalls: Bool

        init(stalls: Bool = false) { self.stalls = stalls }

        var requests: [String: Int] { asked.withLock { $0 } }

        func open(_ request: PullRequest, rest: OriginRest?) async throws(PullFailure) -> OriginResponse {
            asked.withLock { $0[request.url, default: 0] += 1 }
            let bytes = Array(request.url.utf8)
            let content = OriginContent(
                validator: "\"one\"",
                total: Int64(bytes.count),
                filename: nil,
                contentType: nil,
                source: stalls
                    ? StallingSource(Array(bytes.prefix(4)))
                    : ScriptedSource([.bytes(Array(bytes.dropFirst(Int(rest?.offset ?? 0))))]),
                failure: { nil }
            )
            guard let rest else { return .whole(content) }
            return .part(content, offset: rest.offset, end: Int64(bytes.count))
        }
    }

    /// Sends some bytes and then stalls for longer than a test lasts; ends with its task, like content over HTTP.
    private final class StallingSource: ByteSource {
        private var bytes: [UInt8]?

        init(_ bytes: [UInt8]) { self.bytes = bytes }

        let remaining: Int64? = nil
        let interrupter = SourceInterrupter { _ in }

        func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? {
            if let bytes {
                self.bytes = nil
                return bytes
            }
            try? await Task.sleep(for: .seconds(600))
            throw .disconnected
        }
    }

    private func pulls(_ node: Node, _ origin: Origin, claim: TimeInterval) throws -> PullService {
        PullService(
            uploads: node.services.uploads,
            pulls: node.faulty,
            origin: origin,
            sealer: PullSealer(master: try #require(MasterSecret(bytes: [UInt8](repeating: 7, count: 32)))),
            limits: PullLimits(concurrency: 3, claim: claim),
            revoked: RevocationList(state: node.faulty, clock: node.clock),
            observe: { _ in }
        )
    }

    private func begin(_ pulls: PullService, _ url: String, at now: Date) async throws -> UploadID {
        let sealer = PullSealer(master: try #require(MasterSecret(bytes: [UInt8](repeating: 7, count: 32))))
        let new = NewUpload(
            dialect: "pull",
            length: nil,
            completesWhenFull: false,
            pull: NewPull(url: url, sealed: sealer.seal(PullRequest(url: url)))
        )
        let grant = Grant(id: "key_1", subject: "alice", expiresAt: now.addingTimeInterval(600), isOneTime: false)
        return try await pulls.begin(new, under: grant).id
    }

    @Test("each pull runs on one node")
    func pullsOnce() async throws {
        let schema = try PostgresServer.shared.get().makeSchema()
        let nodes = [
            try await Node(schema, storage: storage, skew: 300), try await Node(schema, storage: storage, skew: -300),
        ]
        defer { nodes.forEach { $0.state.close() } }
        let origin = Origin()
        let services = try nodes.map { try pulls($0, origin, claim: 600) }
        let running = services.map { service in Task { await service.run() } }
        var ids: [UploadID: String] = [:]
        for number in 0..<20 {
            let node = number % 2
            let url = "https://example.com/\(number)"
            ids[try await begin(services[node], url, at: nodes[node].clock.now)] = url
        }
        for (id, url) in ids {
            try await wait { try await nodes[0].state.upload(id)?.state == .completed }
            #expect(try await BlobStorageContract.contents(of: id, in: storage) == Array(url.utf8))
            try await wait { try await nodes[0].state.pull(id)?.nextAttemptAt == nil }
        }
        for task in running { task.cancel() }
        for task in running { await task.value }
        #expect(origin.requests.count == 20 && origin.requests.values.allSatisfy { $0 == 1 })
    }

    @Test("a pull whose node died is resumed by another, from where it stopped")
    func pullOfTheDead() async throws {
        let schema = try PostgresServer.shared.get().makeSchema()
        let nodes = [try await Node(schema, storage: storage), try await Node(schema, storage: storage)]
        defer { nodes.forEach { $0.state.close() } }
        let stalling = Origin(stalls: true)
        // It renews the claim every 8 s, and would lose it if the machine left it no time for 16 s.
        let first = try pulls(nodes[0], stalling, claim: 24)
        let dying = Task { await first.run() }
        let url = "https://example.com/file"
        let id = try await begin(first, url, at: nodes[0].clock.now)
        try await wait { stalling.requests[url] == 1 }
        let claim = try #require(try await nodes[1].state.pull(id))
        #expect(claim.isClaimed)
        // While the node is alive, it renews the claim: its end moves on.
        let end = try #require(claim.nextAttemptAt)
        try await wait { try await nodes[1].state.pull(id)?.nextAttemptAt ?? end > end }
        #expect(try await nodes[1].state.pull(id)?.claim == claim.claim)
        #expect(try await nodes[1].state.claimPulls(limit: 1, for: 1) == [])
        nodes[0].fuse.burn(afterCalls: 0)
        // It notices on its own that it has lost the job, although no other node can notify it.
        try await wait { !first.isRunning(id) }
        #expect(try await storage.currentLength(of: id) == 4)
        let origin = Origin()
        let second = try pulls(nodes[1], origin, claim: 1)
        let living = Task { await second.run() }
        try await wait { try await nodes[1].state.upload(id)?.state == .completed }
        #expect(try await BlobStorageContract.contents(of: id, in: storage) == Array(url.utf8))
        for task in [dying, living] {
            task.cancel()
            await task.value
        }
    }

    // MARK: Time

    @Test("nodes use the time of the database")
    func clock() async throws {
        let server = try PostgresServer.shared.get()
        let state = try await PostgresState.open(PostgresSettings(url: server.url(schema: try server.makeSchema())))
        defer { state.close() }
        /// Lower bounds of how far the clock is ahead and behind, in seconds.
        func misses() async throws -> [TimeInterval] {
            let before = state.clock.now
            let row = try await state.read {
                try $0.row("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS t")
            }
            let time = Double(try #require(row?.integer("t"))) / 1000
            return [before.timeIntervalSince1970 - time, time - state.clock.now.timeIntervalSince1970]
        }
        // Half of the first round trip, and the milliseconds.
        for miss in try await misses() { #expect(miss < 1) }
    }

    // MARK: Sweeps

    @Test("nodes that sweep concurrently end each upload once, without failures")
    func sweepTogether() async throws {
        let schema = try PostgresServer.shared.get().makeSchema()
        let nodes = [
            try await Node(schema, storage: storage), try await Node(schema, storage: storage),
            try await Node(schema, storage: storage),
        ]
        defer { nodes.forEach { $0.state.close() } }
        try await nodes[0].services.events.keepEvents()
        let past = Date(timeIntervalSinceNow: -7200)
        // 18 without a record: more than 20 would be left, because so many suggest a lost state.
        for number in 0..<36 {
            let created = past.addingTimeInterval(TimeInterval(number))
            var upload = Upload(
                id: UploadID.generate(at: created),
                dialect: "tus",
                subject: "alice",
                principal: "key_1",
                length: number % 3 == 0 ? 0 : 5,
                createdAt: created,
                expiresAt: created.addingTimeInterval(60)
            )
            upload.reservedBytes = upload.length ?? 0
            try await storage.create(upload.id)
            // Every second one has no record; every third of the others has all its bytes.
            if number % 2 == 0 { try await nodes[0].state.insert(upload, consuming: nil) }
        }
        let reports = await withTaskGroup(of: SweepReport.self) { group in
            for node in nodes { group.addTask { await node.services.sweep.run() } }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(reports.allSatisfy { $0.failures == 0 })
        #expect(reports.reduce(0) { $0 + $1.expired } == 12)
        let ended = try await nodes[0].state.events(EventQuery(after: 0, kinds: [.expired], limit: 1000))
        #expect(ended.count == 12)
        #expect(Set(ended.map(\.upload.id)).count == 12)
        #expect(try await storage.list(after: nil, limit: 100).count == 6)
    }
}
