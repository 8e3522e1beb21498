import Bytes
import Foundation
import SluiceTesting
import StateRecords
import Synchronization
import Testing

@testable import PostgresState
@testable import UploadCore
@testable import UploadModel

@Suite(
    "Leases among nodes",
    .enabled(if: PostgresServer.isAvailable, "\(PostgresServer.missing)"),
    .timeLimit(.minutes(10))
)
struct LeaseTests {
    /// Nodes that share a database and a storage.
    private struct Cluster {
        let database: Database
        let storage = InMemoryStorage()
        let states: [PostgresState]
        let services: [UploadService]
        let observers: [RecordingObserver]

        /// `timeout` is shorter than the 8 s after which a node without a heartbeat is dead.
        init(
            _ count: Int = 2,
            _ server: PostgresServer? = nil,
            timeout: Duration = .seconds(5)
        ) async throws {
            database = try Database(server)
            var states: [PostgresState] = []
            for index in 0..<count {
                // Lets a test distinguish their connections.
                let settings = database.settings(name: "\(database.schema.suffix(12)) \(index)")
                states.append(try await PostgresState.open(settings))
            }
            let observers = (0..<count).map { _ in RecordingObserver() }
            self.states = states
            self.observers = observers
            let storage = storage
            services = zip(states, observers).map { state, observer in
                UploadServices(
                    state: state,
                    storage: storage,
                    clock: SystemClock(),
                    limits: UploadLimits(lifetime: 3600, takeOverTimeout: timeout),
                    observer: observer,
                    among: state
                ).uploads
            }
        }

        func close() { for state in states { state.close() } }

        func create(_ length: Int64?) async throws -> UploadID {
            let grant = Grant(id: "key_1", subject: "alice", expiresAt: Date.distantFuture)
            return try await services[0].create(NewUpload(dialect: "tus", length: length), under: grant).id
        }

        func append(
            _ node: Int,
            _ id: UploadID,
            at offset: Int64,
            _ source: ScriptedSource
        ) async -> Result<Upload, UploadError> {
            do throws(UploadError) {
                return .success(
                    try await services[node].append(
                        to: id,
                        at: offset,
                        contentLength: nil,
                        expecting: nil,
                        from: source
                    )
                )
            } catch {
                return .failure(error)
            }
        }

        func bytes(_ id: UploadID) async throws -> [UInt8] { try await storage.head(of: id, length: .max) }

        func leaseCount() throws -> Int64? {
            try database.connection().row("SELECT count(*) AS n FROM upload_lease")?.integer("n")
        }

        /// Closes all connections of a node from the server's side.
        func disconnect(_ node: Int) throws {
            let connection = try database.server.connection()
            _ = try connection.rows(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1",
                ["\(database.schema.suffix(12)) \(node)"]
            )
        }

        /// Gives a lease to another node, as if this one had been suspended for long.
        func steal(_ id: UploadID) throws {
            // Otherwise the lease is cleared away after a while.
            try database.connection().run(
                "INSERT INTO node (id, heartbeat_at, reads_changes) VALUES (1, clock_timestamp() + interval '1 day', true)"
                    + " ON CONFLICT DO NOTHING"
            )
            let stolen = try database.connection().run(
                "UPDATE upload_lease SET node = 1, epoch = nextval('lease_epoch') WHERE upload_id = $1",
                [id.text]
            )
            #expect(stolen == 1)
        }
    }

    /// Records what happened, in order.
    private final class Log: Sendable {
        private let names = Mutex<[String]>([])
        func add(_ name: String) { names.withLock { $0.append(name) } }
        var all: [String] { names.withLock { $0 } }
    }

    private struct SystemClock: WallClock {
        var now: Date { Date() }
    }

    private func code(_ result: Result<Upload, UploadError>) -> UploadError.Code? {
        if case .failure(let error) = result { error.code } else { nil }
    }

    /// Waits until `condition` holds; fails after many attempts.
    private func wait(until condition: () async throws -> Bool) async throws {
        for _ in 0..<10_000 {
            if try await condition() { return }
            try await Task.sleep(for: .milliseconds(5))
        }
        Issue.record("what was waited for did not happen")
    }

    // MARK: Readiness

    @Test("a node that the others cannot reach is not ready, although its database is there")
    func unreachable() async throws {
        let cluster = try await Cluster()
        defer { cluster.close() }
        let state = cluster.states[0]
        func problem() async -> UploadError? {
            do throws(UploadError) {
                try await state.check()
                return nil
            } catch {
                return error
            }
        }
        #expect(await problem() == nil)
        // It cannot register again.
        try cluster.database.connection().execute("ALTER TABLE node RENAME TO node_elsewhere")
        try cluster.disconnect(0)
        try await wait { await problem()?.message == "The other servers cannot reach this one; try again later." }
        try cluster.database.connection().execute("ALTER TABLE node_elsewhere RENAME TO node")
        try await wait { await problem() == nil }
    }

    // MARK: Taking over

    @Test("a stalled writer on another node releases the lease at once, and its bytes are kept")
    func takeOver() async throws {
        let cluster = try await Cluster()
        defer { cluster.close() }
        var times: [Duration] = []
        for _ in 0..<20 {
            let id = try await cluster.create(6)
            let stalled = ScriptedSource([.bytes([1, 2, 3]), .stall])
            async let old = cluster.append(0, id, at: 0, stalled)
            await stalled.waitUntilStalled()
            let begin = ContinuousClock.now
            #expect(try await cluster.services[1].status(of: id).offset == 3)
            times.append(ContinuousClock.now - begin)
            #expect(code(await old) == .interrupted)
            let rest = await cluster.append(1, id, at: 3, ScriptedSource([.bytes([4, 5, 6])]))
            #expect(try rest.get().state == .completed)
            #expect(try await cluster.bytes(id) == [1, 2, 3, 4, 5, 6])
        }
        #expect(cluster.observers[0].story.filter { $0 == "taken over" }.count == 20)
        let texts = times.sorted().map { ($0 / .milliseconds(1)).formatted(.number.precision(.fractionLength(1))) }
        print("a stalled writer of another node let go after, ms: \(texts.joined(separator: ", "))")
        #expect(try cluster.leaseCount() == 0)
    }

    @Test(
        "a writer that waits for another node is rejected when a newer one arrives there, and readers keep their place"
    )
    func order() async throws {
        let cluster = try await Cluster(3, timeout: .seconds(600))
        defer { cluster.close() }
        let id = try await cluster.create(6)
        let gate = ScriptedSource([.stall])
        let log = Log()
        // Cannot be interrupted.
        async let holder: Void? = try? cluster.services[0].leases.withLease(on: id, interrupter: nil) {
            () async throws(UploadError) in
            _ = try? await gate.next(maximum: 1)
        }
        await gate.waitUntilStalled()
        let writer = ScriptedSource([.stall])
        async let older = cluster.append(1, id, at: 0, writer)
        try await wait { try line(cluster) == 1 }
        async let reader: Void? = try? cluster.services[2].leases.withLease(on: id, interrupter: nil) {
            () async throws(UploadError) in
            log.add("first reader")
        }
        #expect(code(await older) == .interrupted)
        try await wait { try line(cluster) == 1 }
        async let second: Void? = try? cluster.services[1].leases.withLease(on: id, interrupter: nil) {
            () async throws(UploadError) in
            log.add("second reader")
        }
        try await wait { try line(cluster) == 2 }
        gate.proceed()
        _ = await (holder, reader, second)
        #expect(log.all == ["first reader", "second reader"])
        #expect(try cluster.leaseCount() == 0)
    }

    /// Number of waiting nodes.
    private func line(_ cluster: Cluster) throws -> Int64? {
        try cluster.database.connection().row("SELECT sum(cardinality(waiters)) AS n FROM upload_lease")?.integer("n")
    }

    @Test("a node that waits too long, or gives up, leaves the queue")
    func tooLong() async throws {
        let cluster = try await Cluster(timeout: .milliseconds(300))
        defer { cluster.close() }
        let id = try await cluster.create(6)
        let gate = ScriptedSource([.stall])
        async let holder: Void? = try? cluster.services[0].leases.withLease(on: id, interrupter: nil) {
            () async throws(UploadError) in
            _ = try? await gate.next(maximum: 1)
        }
        await gate.waitUntilStalled()
        #expect(
            await errorCode { () async throws(UploadError) in try await cluster.services[1].status(of: id) } == .busy
        )
        let services = cluster.services[1]
        let given = Task {
            await errorCode { () async throws(UploadError) in try await services.status(of: id) }
        }
        try await wait { try line(cluster) == 1 }
        given.cancel()
        #expect([.unavailable, .busy].contains(await given.value))
        #expect(try line(cluster) == 0)
        // A sweep skips what another node uses.
        #expect(try await cluster.states[1].acquireIfFree(id) == false)
        gate.proceed()
        await holder
        #expect(try await cluster.services[1].status(of: id).offset == 0)
        #expect(try cluster.leaseCount() == 0)
    }

    @Test("an upload is terminated from another node while it receives bytes")
    func terminate() async throws {
        let cluster = try await Cluster()
        defer { cluster.close() }
        let id = try await cluster.create(6)
        let stalled = ScriptedSource([.bytes([1, 2, 3]), .stall])
        async let old = cluster.append(0, id, at: 0, stalled)
        await stalled.waitUntilStalled()
        try await cluster.services[1].terminate(id)
        #expect(code(await old) == .interrupted)
        #expect(
            await errorCode { () async throws(UploadError) in try await cluster.services[0].status(of: id) } == .gone
        )
        #expect(try cluster.leaseCount() == 0)
    }

    @Test("two nodes append to one upload concurrently, 200 times, and the bytes are correct")
    func race() async throws {
        let cluster = try await Cluster(timeout: .seconds(600))
        defer { cluster.close() }
        var taken = 0
        for round in 0..<200 {
            let id = try await cluster.create(8)
            let bytes = (0..<8).map { UInt8(truncatingIfNeeded: round + $0) }
            let results = await withTaskGroup(of: Result<Upload, UploadError>.self) { group in
                for node in 0..<2 {
                    group.addTask {
                        let pieces = bytes.map { ScriptedSource.Step.bytes([$0]) }
                        return await cluster.append(node, id, at: 0, ScriptedSource(pieces))
                    }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
            for result in results {
                switch code(result) {
                case nil: break
                case .interrupted: taken += 1
                // The other node was first.
                case .offsetMismatch, .lengthExceeded, .notOpen: break
                case let other: Issue.record("\(String(describing: other))")
                }
            }
            let node = round % 2
            let upload = try await cluster.services[node].status(of: id)
            let stored = try await cluster.bytes(id)
            #expect(stored == Array(bytes.prefix(Int(upload.offset))))
            if upload.state == .open {
                let rest = bytes[Int(upload.offset)...].map { ScriptedSource.Step.bytes([$0]) }
                _ = try await cluster.append(node, id, at: upload.offset, ScriptedSource(rest)).get()
            }
            #expect(try await cluster.bytes(id) == bytes)
            #expect(try await cluster.states[0].media(id)?.size == 8)
        }
        print("200 races of two nodes: \(taken) writers were interrupted")
        #expect(try cluster.leaseCount() == 0)
    }

    @Test("a thousand leases leave nothing behind")
    func thousand() async throws {
        let cluster = try await Cluster()
        defer { cluster.close() }
        await withTaskGroup(of: Void.self) { group in
            for worker in 0..<4 {
                group.addTask {
                    for _ in 0..<250 {
                        let id = UploadID.generate(at: Date())
                        let code = await errorCode { () async throws(UploadError) in
                            try await cluster.services[worker % 2].status(of: id)
                        }
                        #expect(code == .notFound)
                    }
                }
            }
        }
        #expect(try cluster.leaseCount() == 0)
    }

    // MARK: Fencing

    @Test("a node whose lease was taken can no longer write")
    func fenced() async throws {
        let cluster = try await Cluster()
        defer { cluster.close() }
        let state = cluster.states[0]
        let id = try await cluster.create(nil)
        let before = try #require(try await state.upload(id))
        let effectiveLimits = EffectiveLimits(policies: [:], period: QuotaPeriod(around: Date(), length: 86400))
        let sequence = try await state.lastEvent()
        try await cluster.services[0].leases.withLease(on: id, interrupter: nil) { () async throws(UploadError) in
            do { try cluster.steal(id) } catch { Issue.record(error) }
            #expect(await writes(state, before, effectiveLimits) == Array(repeating: .interrupted, count: 6))
            let part = PartRecord(number: 1, size: 1, md5: [], crc64: 0, location: "", storedAt: Date())
            #expect(
                await errorCode { () async throws(UploadError) in try await state.putPart(part, of: id) }
                    == .interrupted
            )
        }
        #expect(try await state.upload(id) == before)
        #expect(try await state.lastEvent() == sequence)
        // Releasing a lease that it had lost changed nothing.
        #expect(try cluster.leaseCount() == 1)
        // No node has this name: the next one gets the lease, and may write.
        try await cluster.services[0].leases.withLease(on: id, interrupter: nil) { () async throws(UploadError) in
            #expect(await writes(state, before, effectiveLimits) == Array(repeating: nil, count: 6))
        }
        #expect(try await state.upload(id)?.state == .terminated)
    }

    /// All calls that write under a lease.
    private func writes(
        _ state: PostgresState,
        _ upload: Upload,
        _ effectiveLimits: EffectiveLimits
    ) async -> [UploadError.Code?] {
        let now = Date()
        var completed = upload
        completed.state = .completed
        completed.length = 0
        completed.endedAt = now
        let done = completed
        return [
            await errorCode { () async throws(UploadError) in
                try await state.setLength(of: upload.id, to: 3, updatedAt: now, under: effectiveLimits)
            },
            await errorCode { () async throws(UploadError) in
                try await state.reserve(3, for: upload.id, under: effectiveLimits)
            },
            await errorCode { () async throws(UploadError) in
                try await state.setExpiry(of: upload.id, to: nil, updatedAt: now)
            },
            await errorCode { () async throws(UploadError) in
                try await state.setAttributes(of: upload.id, to: ObjectAttributes())
            },
            await errorCode { () async throws(UploadError) in
                try await state.end(upload.id, as: .terminated, at: now)
            },
            await errorCode { () async throws(UploadError) in
                try await state.complete(done, as: nil, replacing: nil, under: effectiveLimits, recording: [])
            },
        ]
    }

    @Test("a lease is not taken while its holder commits")
    func fencedCommit() async throws {
        let cluster = try await Cluster()
        defer { cluster.close() }
        let id = try await cluster.create(6)
        let thief = try cluster.database.connection()
        try thief.begin()
        let log = Log()
        try await cluster.services[0].leases.withLease(on: id, interrupter: nil) { () async throws(UploadError) in
            // It is being taken, and the transaction is not committed yet.
            do {
                try thief.run("UPDATE upload_lease SET node = 1, epoch = epoch + 1 WHERE upload_id = $1", [id.text])
            } catch {
                Issue.record(error)
            }
            let state = cluster.states[0]
            async let outcome = errorCode { () async throws(UploadError) in
                try await state.setExpiry(of: id, to: nil, updatedAt: Date())
                log.add("written")
            }
            try? await wait { try cluster.database.waitingForLocks() == 1 }
            #expect(log.all == [])
            do { try thief.commit() } catch { Issue.record(error) }
            #expect(await outcome == .interrupted)
        }
    }

    @Test("a writer whose lease was taken ends with what it has, and does not complete the upload")
    func fencedWriter() async throws {
        let cluster = try await Cluster()
        defer { cluster.close() }
        let id = try await cluster.create(6)
        let source = ScriptedSource([.bytes([1, 2, 3]), .stall, .bytes([4, 5, 6])])
        async let writer = cluster.append(0, id, at: 0, source)
        await source.waitUntilStalled()
        try cluster.steal(id)
        source.proceed()
        #expect(code(await writer) == .interrupted)
        #expect(try await cluster.states[0].upload(id)?.state == .open)
        #expect(try await cluster.states[0].media(id) == nil)
        // The next user finds the bytes.
        #expect(try await cluster.services[1].status(of: id).state == .completed)
    }

    // MARK: Death

    @Test(
        "a node that is dead has no leases",
        arguments: [
            (isConnected: false, beatAgo: 0), (isConnected: true, beatAgo: 9), (isConnected: false, beatAgo: 9),
        ]
    )
    func dead(_ other: (isConnected: Bool, beatAgo: Int)) async throws {
        let cluster = try await Cluster(1)
        defer { cluster.close() }
        let id = try await cluster.create(6)
        let connection = try cluster.database.connection()
        let node = Int64.random(in: 1 ... .max)
        if other.isConnected { _ = try connection.row("SELECT pg_advisory_lock_shared($1) IS NULL", [node]) }
        try connection.run(
            "INSERT INTO node VALUES ($1, clock_timestamp() - make_interval(secs => $2))",
            [node, other.beatAgo]
        )
        try connection.run("INSERT INTO upload_lease VALUES ($1, $2, 0, '{}')", [id.text, node])
        #expect(try await cluster.services[0].status(of: id).offset == 0)
        #expect(try cluster.leaseCount() == 0)
    }

    @Test("the death of a node is noticed while another one waits for it")
    func dies() async throws {
        let cluster = try await Cluster(1, timeout: .seconds(600))
        defer { cluster.close() }
        let id = try await cluster.create(6)
        let node = Int64.random(in: 1 ... .max)
        var connection: Connection? = try cluster.database.connection()
        _ = try connection?.row("SELECT pg_advisory_lock_shared($1) IS NULL", [node])
        try connection?.run("INSERT INTO node VALUES ($1, clock_timestamp() + interval '1 hour')", [node])
        try connection?.run("INSERT INTO upload_lease VALUES ($1, $2, 0, '{}')", [id.text, node])
        async let status = cluster.services[0].status(of: id)
        try await wait { try line(cluster) == 1 }
        connection = nil
        #expect(try await status.offset == 0)
    }

    @Test("a lease that its own node does not know ends when another node wants it")
    func stray() async throws {
        let cluster = try await Cluster()
        defer { cluster.close() }
        let id = try await cluster.create(6)
        let connection = try cluster.database.connection()
        try connection.run("INSERT INTO upload_lease VALUES ($1, $2, 0, '{}')", [id.text, cluster.states[0].node.id])
        #expect(try await cluster.services[1].status(of: id).offset == 0)
        // Its own node can take it as if it were free.
        try connection.run("INSERT INTO upload_lease VALUES ($1, $2, 0, '{}')", [id.text, cluster.states[0].node.id])
        #expect(try await cluster.states[0].acquireIfFree(id))
        await cluster.states[0].release(id)
        #expect(try cluster.leaseCount() == 0)
    }

    @Test("a node that lost its connections keeps its leases, and can be reached again")
    func disconnected() async throws {
        let cluster = try await Cluster()
        defer { cluster.close() }
        let id = try await cluster.create(6)
        let source = ScriptedSource([.bytes([1, 2, 3]), .stall, .bytes([4, 5, 6])])
        async let writer = cluster.append(0, id, at: 0, source)
        await source.waitUntilStalled()
        try cluster.disconnect(0)
        try await wait { try isJoined(cluster, 0) }
        source.proceed()
        #expect(try await writer.get().state == .completed)

        let second = try await cluster.create(6)
        let stalled = ScriptedSource([.bytes([1]), .stall])
        async let old = cluster.append(0, second, at: 0, stalled)
        await stalled.waitUntilStalled()
        #expect(try await cluster.services[1].status(of: second).offset == 1)
        #expect(code(await old) == .interrupted)
        #expect(try cluster.leaseCount() == 0)
    }

    @Test("a wish that did not reach the holder is heard when its connection is back")
    func lostWish() async throws {
        let cluster = try await Cluster()
        defer { cluster.close() }
        let id = try await cluster.create(6)
        let stalled = ScriptedSource([.bytes([1]), .stall])
        async let old = cluster.append(0, id, at: 0, stalled)
        await stalled.waitUntilStalled()
        // As if its notification had been sent while nobody listened.
        let wishes = try cluster.database.connection().run(
            "UPDATE upload_lease SET waiters = ARRAY[$2::bigint] WHERE upload_id = $1",
            [id.text, cluster.states[1].node.id]
        )
        #expect(wishes == 1)
        try cluster.disconnect(0)
        #expect(code(await old) == .interrupted)
    }

    /// Whether a node holds the lock that shows others that it is alive.
    private func isJoined(_ cluster: Cluster, _ node: Int) throws -> Bool {
        let row = try cluster.database.connection().row(
            "SELECT NOT pg_try_advisory_xact_lock($1) AS joined",
            [cluster.states[node].node.id]
        )
        return row?.flag("joined") == true
    }

    @Test("leases survive a restart of the database")
    func restart() async throws {
        let server = try PostgresServer()
        let cluster = try await Cluster(2, server)
        defer { cluster.close() }
        let id = try await cluster.create(6)
        let taken = try await cluster.create(6)
        let released = try await cluster.create(6)
        let source = ScriptedSource([.bytes([1, 2, 3]), .stall, .bytes([4, 5, 6])])
        async let writer = cluster.append(0, id, at: 0, source)
        let other = ScriptedSource([.bytes([1, 2, 3]), .stall])
        async let loser = cluster.append(0, taken, at: 0, other)
        let third = ScriptedSource([.bytes([1, 2, 3]), .stall])
        async let unlucky = cluster.append(0, released, at: 0, third)
        for source in [source, other, third] { await source.waitUntilStalled() }
        server.stop()
        // It ends while the database is down, and its lease remains there.
        third.interrupter.interrupt()
        #expect(code(await unlucky) != nil)
        try server.start()
        try await wait { try isJoined(cluster, 0) && isJoined(cluster, 1) }
        // A node refuses calls for a moment after it could not connect.
        for (number, state) in cluster.states.enumerated() {
            let record = DialectRecord(kind: "test", key: "\(number)", text: "{}", createdAt: Date())
            var isAvailable = false
            while !isAvailable {
                do throws(UploadError) {
                    _ = try await state.insert(record, at: Date())
                    _ = try await state.record("test", record.key)
                    isAvailable = true
                } catch {
                    guard error.code == .unavailable else { throw error }
                    try await Task.sleep(for: .milliseconds(20))
                }
            }
        }
        source.proceed()
        #expect(try await writer.get().state == .completed)
        #expect(try await cluster.services[1].status(of: taken).offset == 3)
        #expect(code(await loser) == .interrupted)
        #expect(try await cluster.services[1].status(of: released).offset == 3)
        #expect(try cluster.leaseCount() == 0)
    }

    // MARK: Beside leases

    @Test("events recorded by one node are announced to the others")
    func bell() async throws {
        let cluster = try await Cluster()
        defer { cluster.close() }
        try await cluster.services[1].events.keepEvents()
        let bell = cluster.services[1].events.bell
        cluster.states[1].onEventsElsewhere { bell.ring() }
        let own = cluster.services[0].events.bell
        let echoes = Log()
        cluster.states[0].onEventsElsewhere { echoes.add("echo") }
        for _ in 0..<5 {
            let count = bell.count
            _ = try await cluster.create(6)
            // Without polling, this ends only after a ring.
            try await wait { bell.count > count }
        }
        #expect(own.count == 5)
        #expect(echoes.all == [])
    }

    @Test("concurrent edits of metadata on two nodes are all kept, also during the completion")
    func edits() async throws {
        let cluster = try await Cluster(timeout: .seconds(600))
        defer { cluster.close() }
        let id = try await cluster.create(6)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for index in 0..<4 {
                group.addTask {
                    for round in 0..<5 {
                        _ = try await cluster.services[index % 2].editMetadata(of: id) {
                            $0.changed(by: ["k\(index) \(round)": "v"])
                        }
                    }
                }
            }
            group.addTask {
                _ = try await cluster.append(0, id, at: 0, ScriptedSource([.bytes([1, 2, 3, 4, 5, 6])])).get()
            }
            try await group.waitForAll()
        }
        let upload = try #require(try await cluster.states[0].upload(id))
        #expect(upload.metadata.values.count == 20)
        #expect(try await cluster.states[0].media(id)?.metadata == upload.metadata.values)
    }
}
