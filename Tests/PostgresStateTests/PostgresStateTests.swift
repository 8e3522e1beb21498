import Foundation
import StateRecords
import SluiceTesting
import Synchronization
import Testing
import UploadModel

@testable import PostgresState

@Suite(
    "PostgreSQL state",
    .enabled(if: PostgresServer.isAvailable, "\(PostgresServer.missing)"),
    .timeLimit(.minutes(10))
)
struct PostgresStateTests {
    private let start = Date(timeIntervalSince1970: 1_750_000_000)

    private func upload(_ seconds: TimeInterval = 0, subject: String = "alice", issuer: String? = nil) -> Upload {
        let created = start.addingTimeInterval(seconds)
        var upload = Upload(
            id: UploadID.generate(at: created),
            dialect: "tus",
            subject: subject,
            principal: "key_1",
            length: 5,
            createdAt: created,
            expiresAt: created.addingTimeInterval(60)
        )
        upload.issuer = issuer
        upload.reservedBytes = 5
        return upload
    }

    private func key(_ number: Int) -> APIKey {
        APIKey(
            id: "key_\(number)",
            name: "key \(number)",
            scopes: [.mint],
            createdAt: start,
            digest: Array("digest \(number)".utf8)
        )
    }

    private func effectiveLimits(_ accounts: [Account] = [], storedBytes: Int64? = nil) -> EffectiveLimits {
        var policy = Policy()
        policy.storedBytes = storedBytes
        return EffectiveLimits(
            policies: Dictionary(uniqueKeysWithValues: accounts.map { ($0, policy) }),
            period: QuotaPeriod(around: start, length: 86400)
        )
    }

    private func insert(_ upload: Upload, into state: PostgresState, _ effectiveLimits: EffectiveLimits)
        async throws(UploadError)
    {
        try await state.insert(upload, consuming: nil, under: effectiveLimits, recording: .sample(.created, of: upload))
    }

    /// Waits until `condition` holds; fails after many attempts.
    private func wait(until condition: () async throws -> Bool) async throws {
        for _ in 0..<10_000 {
            if try await condition() { return }
            try await Task.sleep(for: .milliseconds(5))
        }
        Issue.record("what was waited for did not happen")
    }

    @Test("it meets the contract of state stores", arguments: StateStoreContract.all)
    func contract(_ contract: Contract<any StateStore>) async throws {
        let state = try await Database().open()
        defer { state.close() }
        // Most contracts look for events that no hook receives; EventRecordingTests are about those.
        try await state.keepEvents(until: .distantFuture, at: .distantPast)
        try await contract.check(state)
    }

    @Test("it meets the contract of records of blobs", arguments: BlobRecordsContract.all)
    func blobs(_ contract: Contract<any BlobRecords>) async throws {
        let state = try await Database().open()
        defer { state.close() }
        try await contract.check(state)
    }

    @Test("it meets the contract of marks", arguments: StoreMarksContract.all)
    func marks(_ contract: Contract<any StoreMarks>) async throws {
        let state = try await Database().open()
        defer { state.close() }
        try await contract.check(state)
    }

    @Test("recorded data survives closing and opening again")
    func reopen() async throws {
        let database = try Database()
        let upload = upload()
        let first = try await database.open()
        try await insert(upload, into: first, effectiveLimits())
        try await first.insert(key(1))
        first.close()
        #expect(await errorCode { () async throws(UploadError) in try await first.upload(upload.id) } == .unavailable)
        let state = try await database.open()
        defer { state.close() }
        #expect(try await state.upload(upload.id) == upload)
        #expect(try await state.keys() == [key(1)])
    }

    @Test(
        "texts are read back as they were, and found, whatever is in them",
        arguments: ["a\0b", "\0", "\u{FFFF}", "\u{FFFF}0\0\u{FFFF}1", "{\"a\\b\",NULL}", "'; --", "", "e\u{301}é😀\n"]
    )
    func texts(_ text: String) async throws {
        let state = try await Database().open()
        defer { state.close() }
        var upload = upload(subject: text)
        upload.alias = text
        upload.key = text
        upload.metadata = UploadMetadata(raw: text, values: [text: text])
        try await insert(upload, into: state, effectiveLimits())
        #expect(try await state.upload(upload.id) == upload)
        #expect(try await state.upload(alias: text) == upload.id)
        #expect(try await state.uploads(UploadQuery(subject: text)) == [upload])
        #expect(try await state.accounts([Account(.subject, text)])[Account(.subject, text)]?.usage.openUploads == 1)
        #expect(try await state.events(EventQuery(after: 0, subject: text)).map(\.upload.alias) == [text])
        var completed = upload
        completed.state = .completed
        completed.endedAt = start
        completed.expiresAt = nil
        completed.offset = 5
        let media = Media(
            id: upload.id,
            key: text,
            subject: text,
            size: 5,
            contentType: text,
            filename: text,
            metadata: [:],
            createdAt: start
        )
        #expect(try await state.complete(completed, as: media))
        #expect(try await state.media(upload.id) == media)
    }

    @Test("a name that is too long for an index is refused as the client's mistake")
    func longName() async throws {
        let state = try await Database().open()
        defer { state.close() }
        // Random, because repeated text is compressed.
        let name = (0..<100).map { _ in UUID().uuidString }.joined()
        let long = upload(subject: name)
        #expect(
            await errorCode { () async throws(UploadError) in try await insert(long, into: state, effectiveLimits()) }
                == .invalidRequest
        )
        #expect(try await state.upload(long.id) == nil)
    }

    // MARK: Schema

    @Test("concurrent openers of a new database all get the same one")
    func openTogether() async throws {
        let database = try Database()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<8 {
                group.addTask {
                    let state = try await database.open(connections: 1)
                    defer { state.close() }
                    try await state.insert(key(number))
                }
            }
            try await group.waitForAll()
        }
        let state = try await database.open()
        defer { state.close() }
        #expect(try await state.keys().count == 8)
    }

    @Test("a failed migration leaves nothing, and earlier ones stay")
    func failedMigration() async throws {
        let database = try Database()
        let connection = try Connection(to: Target(database.settings()))
        let next = (Schema.migrations.last?.number ?? 0) + 1
        let bad = Schema.Migration(number: next, statements: "CREATE TABLE extra (); SELECT nonsense")
        try Schema.migrate(connection)
        #expect(throws: DatabaseFailure.self) { try Schema.migrate(connection, Schema.migrations + [bad]) }
        #expect(try connection.row("SELECT to_regclass('extra') IS NULL AS gone")?.flag("gone") == true)
        let good = Schema.Migration(number: next, statements: "CREATE TABLE extra ()")
        try Schema.migrate(connection, Schema.migrations + [good])
        #expect(try connection.row("SELECT max(number) AS last FROM sluice_migration")?.integer("last") == next)
        // Now it is the database of a newer version.
        let error = await #expect(throws: PostgresStateError.self) { try await database.open() }
        #expect(error?.reason.contains("newer version") == true)
    }

    @Test("no migration has a number that an earlier one could hide")
    func migrationNumbers() {
        let numbers = Schema.migrations.map(\.number)
        #expect(zip(numbers, numbers.dropFirst()).allSatisfy { $0 < $1 })
    }

    @Test("a running node continues while a newer one changes the tables")
    func columnAdded() async throws {
        let database = try Database()
        let state = try await database.open(connections: 1)
        defer { state.close() }
        let upload = upload()
        try await insert(upload, into: state, effectiveLimits())
        #expect(try await state.upload(upload.id) == upload)
        try database.server.connection().execute("ALTER TABLE \(database.schema).upload ADD COLUMN more text")
        #expect(try await state.upload(upload.id) == upload)
    }

    @Test("an unreadable record is an error, not a crash")
    func unreadable() async throws {
        let state = try await Database().open()
        defer { state.close() }
        let upload = upload()
        try await insert(upload, into: state, effectiveLimits())
        try await state.write { try $0.run("UPDATE upload SET metadata = 'no json'") }
        #expect(
            await errorCode { () async throws(UploadError) in try await state.upload(upload.id) } == .storageFailure
        )
        try await state.write { try $0.run("UPDATE upload SET id = 'no id'") }
        #expect(
            await errorCode { () async throws(UploadError) in try await state.uploads(UploadQuery()) }
                == .storageFailure
        )
    }

    /// Makes everything due so many seconds earlier.
    private static func passed(_ seconds: TimeInterval, _ table: String, in state: PostgresState) async throws {
        try await state.write { connection in
            try connection.run(
                "UPDATE \(table) SET next_attempt_at = next_attempt_at - \(PostgresState.milliseconds(seconds))"
            )
        }
    }

    @Test("events that cannot be read are put off ever longer, and keep no others from being delivered")
    func unreadableEvents() async throws {
        let state = try await Database().open()
        defer { state.close() }
        for number in 0..<3 { try await state.record(.sample(.created, of: upload(TimeInterval(number)))) }
        #expect(try await state.nextDelivery().map { $0 <= 0 } == true)
        try await state.write { try $0.run("UPDATE event SET content = 'no json' WHERE sequence < 3") }
        #expect(try await state.claimDeliveries(limit: 1, for: 1_000_000).map(\.sequence) == [3])
        for _ in 0..<9 {
            try await Self.passed(4000, "event", in: state)
            #expect(try await state.claimDeliveries(limit: 1, for: 60).isEmpty)
        }
        // Of 2, 4, 8 … 1024 seconds the last is not over.
        #expect(try await state.nextDelivery().map { $0 > 512 && $0 <= 3600 } == true)
        try await Self.passed(4000, "event", in: state)
        // A version that can read them.
        try await state.write { connection in
            try connection.run("UPDATE event SET content = (SELECT content FROM event WHERE sequence = 3)")
        }
        #expect(try await state.claimDeliveries(limit: 9, for: 60).map(\.sequence) == [1, 2])
    }

    @Test("pulls that cannot be read are put off ever longer, and keep no others waiting")
    func unreadablePulls() async throws {
        let state = try await Database().open()
        defer { state.close() }
        let uploads = (0..<3).map { upload(TimeInterval($0)) }
        for (number, upload) in uploads.enumerated() {
            let due = Date(timeIntervalSince1970: TimeInterval(number))
            let job = PullJob(uploadID: upload.id, subject: "alice", url: "u", sealed: "s", nextAttemptAt: due)
            try await state.insert(upload, consuming: nil, pulling: job)
        }
        let last = uploads[2].id
        try await state.write { connection in
            try connection.run("UPDATE pull SET content_types = 'no json' WHERE upload_id <> '\(last.text)'")
        }
        let claimed = try await state.claimPulls(limit: 1, for: 1_000_000)
        #expect(claimed.map(\.uploadID) == [last])
        for _ in 0..<9 {
            try await Self.passed(4000, "pull", in: state)
            #expect(try await state.claimPulls(limit: 1, for: 60).isEmpty)
        }
        // Of 2, 4, 8 … 1024 seconds the last is not over.
        #expect(try await state.nextPull().map { $0 > 512 && $0 <= 3600 } == true)
        try await Self.passed(4000, "pull", in: state)
        #expect(try await state.update(claimed[0], .never))
        try await state.write { try $0.run("UPDATE pull SET content_types = '[]'") }
        #expect(try await state.claimPulls(limit: 9, for: 60).map(\.uploadID) == uploads.prefix(2).map(\.id))
    }

    @Test("lists of few uploads among many read the index of their filter")
    func plansOfLists() async throws {
        let state = try await Database().open(connections: 1)
        defer { state.close() }
        try await state.write { connection in
            try connection.run(
                """
                INSERT INTO upload (id, dialect, subject, principal, issuer, length, reserved_bytes, completes_when_full,
                    state, metadata, created_at, updated_at, ended_at)
                SELECT lpad(i::text, 26, '0'), 'tus', 'user' || i % 1000, 'key_1', 'key_1', 5, 0, true,
                    CASE WHEN i % 5000 = 0 THEN 'open' ELSE 'completed' END, '{}', i, i,
                    CASE WHEN i % 5000 > 0 THEN i END
                FROM generate_series(1, 20000) AS numbers (i)
                """
            )
            try connection.run("ANALYZE upload")
        }
        let queries: [(UploadQuery, index: String)] = [
            (UploadQuery(), "upload_pkey"), (UploadQuery(states: [.open]), "upload_by_state"),
            (UploadQuery(states: [.expired, .terminated, .open]), "upload_by_state"),
            (UploadQuery(subject: "user7"), "upload_by_subject"),
            (UploadQuery(states: [.completed], subject: "user7"), "upload_by_subject"),
            (UploadQuery(issuer: "key_2"), "upload_by_issuer"), (UploadQuery(dialect: "http"), "upload_by_dialect"),
        ]
        for (query, index) in queries {
            let plan = try await state.read { connection in
                let (sql, values) = PostgresState.statement(of: query)
                return try connection.rows("EXPLAIN " + sql, values, isPlannedAnew: true)
                    .compactMap { $0.text("QUERY PLAN") }
            }.joined(separator: "\n")
            #expect(plan.contains(" \(index) ") && !plan.contains("Seq Scan"), "\(plan)")
        }
    }

    // MARK: Sessions

    @Test(
        "every session waits for stable storage if required, and never waits forever",
        arguments: [(true, "on"), (false, "off")]
    )
    func session(isSynchronous: Bool, level: String) async throws {
        let database = try Database()
        // The defaults of the server, the database and the role have no effect.
        var settings = database.settings(options: ["synchronous_commit=off", "bytea_output=escape"])
        settings.isSynchronous = isSynchronous
        settings.lockTimeout = .milliseconds(1500)
        let state = try await PostgresState.open(settings)
        defer { state.close() }
        let values = try await state.read { connection in
            try ["synchronous_commit", "lock_timeout", "statement_timeout", "transaction_isolation", "bytea_output"]
                .map { try connection.row("SELECT current_setting($1) AS value", [$0])?.text("value") }
        }
        #expect(values == [level, "1500ms", "30s", "read committed", "hex"])
    }

    @Test("higher levels that the operator set are kept")
    func strongerCommit() async throws {
        let state = try await Database().open(options: ["synchronous_commit=remote_apply"])
        defer { state.close() }
        let level = try await state.read { try $0.row("SHOW synchronous_commit")?.text("synchronous_commit") }
        #expect(level == "remote_apply")
    }

    @Test("a read-only server is not ready, but can be read")
    func readOnly() async throws {
        let database = try Database()
        try await database.open().close()
        let state = try await database.open(options: ["default_transaction_read_only=on"])
        defer { state.close() }
        #expect(await errorCode { () async throws(UploadError) in try await state.check() } == .unavailable)
        #expect(await errorCode { () async throws(UploadError) in try await state.insert(key(1)) } == .unavailable)
        #expect(try await state.keys() == [])
    }

    @Test("errors do not contain the password")
    func secrets() async throws {
        let database = try Database()
        let secret = "open-sesame"
        let urls = [
            database.server.url(password: secret), "postgres://sluice:\(secret)@localhost:1/postgres",
            "postgres://sluice:\(secret)%zz@localhost/postgres", "postgres://sluice:\(secret)@localhost/x?nonsense=1",
            "postgres://sluice:a/\(secret)@localhost/postgres", "postgres://sluice:a@\(secret)@localhost/postgres",
            secret,
            "postgres://sluice:\(secret)@localhost/\(secret)?host=/nowhere/\(secret)",
        ]
        for url in urls {
            let error = await #expect(throws: PostgresStateError.self) {
                try await PostgresState.open(PostgresSettings(url: url))
            }
            let text = "\(try #require(error))"
            #expect(!text.contains(secret), "\(text)")
        }
    }

    @Test(
        "errors of the server become errors of the domain",
        arguments: [
            ("53100", false, .storageFull), ("53300", false, .unavailable), ("55P03", false, .unavailable),
            ("57014", false, .unavailable), ("40P01", false, .unavailable), ("25006", false, .unavailable),
            ("57P01", true, .unavailable), (nil, true, .unavailable), ("23505", false, .storageFailure),
            (nil, false, .storageFailure),
        ] as [(String?, Bool, UploadError.Code)]
    )
    func codes(state: String?, isLost: Bool, code: UploadError.Code) {
        let failure = DatabaseFailure(state: state, message: "", isConnectionLost: isLost)
        #expect(UploadError(database: failure).code == code)
    }

    // MARK: Broken connections

    @Test("a connection that broke while idle is replaced unnoticed")
    func idleConnectionEnded() async throws {
        let database = try Database()
        let state = try await database.open(connections: 1)
        defer { state.close() }
        let admin = try database.server.connection()
        func end() async throws {
            let process = try await state.read { try $0.row("SELECT pg_backend_pid() AS pid")?.integer("pid") }
            try admin.execute("SELECT pg_terminate_backend(\(try #require(process)), 60000)")
        }
        try await end()
        try await state.insert(key(1))
        try await end()
        #expect(try await state.keys() == [key(1)])
    }

    @Test("a transaction whose connection breaks is not repeated, and leaves nothing")
    func connectionEndedWithin() async throws {
        let database = try Database()
        let state = try await database.open(connections: 1)
        defer { state.close() }
        let runs = Mutex(0)
        let code = await errorCode { () async throws(UploadError) in
            try await state.write { connection in
                runs.withLock { $0 += 1 }
                try connection.run("INSERT INTO used_grant VALUES ('g', 'u', 1)")
                let process = try connection.row("SELECT pg_backend_pid() AS pid")?.integer("pid")
                try database.server.connection()
                    .execute("SELECT pg_terminate_backend(\(process ?? 0), 60000)")
                try connection.run("INSERT INTO used_grant VALUES ('h', 'u', 1)")
            }
        }
        #expect(code == .unavailable)
        #expect(runs.withLock { $0 } == 1)
        let count = try await state.read { try $0.row("SELECT count(*) AS n FROM used_grant")?.integer("n") }
        #expect(count == 0)
    }

    @Test("a commit whose response is lost is reported as such, and not repeated")
    func connectionEndedAtCommit() async throws {
        let database = try Database()
        let state = try await database.open(connections: 1)
        defer { state.close() }
        let runs = Mutex(0)
        let code = await errorCode { () async throws(UploadError) in
            try await state.write { connection in
                runs.withLock { $0 += 1 }
                let process = try connection.row("SELECT pg_backend_pid() AS pid")?.integer("pid")
                try database.server.connection()
                    .execute("SELECT pg_terminate_backend(\(process ?? 0), 60000)")
            }
        }
        #expect(code == .unavailable)
        #expect(runs.withLock { $0 } == 1)
    }

    @Test("after a restart of the server it is used again, and recorded data is there")
    func restart() async throws {
        let server = try PostgresServer()
        let state = try await Database(server).open()
        defer { state.close() }
        let first = upload()
        let second = upload(1)
        try await insert(first, into: state, effectiveLimits())
        server.stop()
        for _ in 0..<3 {
            let code = await errorCode { () async throws(UploadError) in try await state.upload(first.id) }
            #expect(code == .unavailable)
        }
        #expect(
            await errorCode { () async throws(UploadError) in try await insert(second, into: state, effectiveLimits()) }
                == .unavailable
        )
        try server.start()
        try await wait { await errorCode { () async throws(UploadError) in try await state.check() } == nil }
        #expect(try await state.upload(first.id) == first)
        #expect(try await state.upload(second.id) == nil)
        try await insert(second, into: state, effectiveLimits())
        #expect(try await state.uploads(UploadQuery()) == [second, first])
    }

    // MARK: Several nodes

    @Test("of many uploads created concurrently on two nodes only as many are admitted as there is room for")
    func quotaRace() async throws {
        let database = try Database()
        let nodes = [try await database.open(connections: 4), try await database.open(connections: 4)]
        defer { nodes.forEach { $0.close() } }
        let alice = Account(.subject, "alice")
        let admitted = await withTaskGroup(of: Bool.self) { group in
            for number in 0..<50 {
                group.addTask {
                    await errorCode { () async throws(UploadError) in
                        try await insert(
                            upload(TimeInterval(number)),
                            into: nodes[number % 2],
                            effectiveLimits([alice], storedBytes: 87)
                        )
                    } == nil
                }
            }
            return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(admitted == 17)
        #expect(try await nodes[0].accounts([alice])[alice]?.usage.reservedBytes == 85)
        #expect(try await nodes[1].uploads(UploadQuery(limit: 100)).count == 17)
    }

    @Test("of many uploads that two nodes admit concurrently with a one-time grant one succeeds")
    func grantRace() async throws {
        let database = try Database()
        let nodes = [try await database.open(connections: 4), try await database.open(connections: 4)]
        defer { nodes.forEach { $0.close() } }
        let grant = Grant(id: "g", subject: nil, expiresAt: start, isOneTime: true)
        let codes = await withTaskGroup(of: UploadError.Code?.self) { group in
            for number in 0..<30 {
                group.addTask {
                    await errorCode { () async throws(UploadError) in
                        try await nodes[number % 2].insert(upload(TimeInterval(number)), consuming: grant)
                    }
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(codes.count { $0 == nil } == 1)
        #expect(codes.count { $0 == .grantUsed } == 29)
        #expect(try await nodes[0].uploads(UploadQuery()).count == 1)
    }

    @Test("two nodes that change accounts and uploads in all combinations neither deadlock nor miscount")
    func combinations() async throws {
        let database = try Database()
        let nodes = [try await database.open(connections: 6), try await database.open(connections: 6)]
        defer { nodes.forEach { $0.close() } }
        let people = ["a", "b", "c"]
        let parts = people.map { name in
            var part = upload(subject: name, issuer: "key_\(name)")
            part.concatenation = Concatenation(.partial, raw: "partial")
            return part
        }
        for part in parts {
            try await insert(part, into: nodes[0], effectiveLimits())
            var done = part
            done.state = .completed
            done.endedAt = start
            #expect(try await nodes[1].complete(done, as: nil))
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<36 {
                group.addTask {
                    let subject = people[number % 3]
                    var whole = upload(TimeInterval(number), subject: subject, issuer: "key_\(people[number / 3 % 3])")
                    let order = [0, 1, 2].map { parts[($0 + number) % 3].id }
                    whole.length = nil
                    whole.reservedBytes = 0
                    whole.concatenation = Concatenation(.final(parts: order), raw: "final;\(number)")
                    try await insert(whole, into: nodes[number % 2], effectiveLimits())
                    var done = whole
                    done.state = .completed
                    done.length = 15
                    done.endedAt = start
                    let media = Media(
                        id: whole.id,
                        subject: subject,
                        size: 15,
                        contentType: nil,
                        filename: nil,
                        metadata: [:],
                        createdAt: start
                    )
                    #expect(
                        try await nodes[(number + 1) % 2].complete(
                            done,
                            as: media,
                            replacing: nil,
                            under: effectiveLimits(),
                            recording: [.sample(.completed, of: done)]
                        )
                    )
                }
            }
            try await group.waitForAll()
        }
        let accounts = people.flatMap { [Account(.subject, $0), Account(.key, "key_\($0)")] }
        for (account, record) in try await nodes[0].accounts(accounts) {
            #expect(record.usage.storedBytes == 12 * 15, "\(account)")
            #expect(record.usage.reservedBytes == 0, "\(account)")
            #expect(record.usage.openUploads == 0, "\(account)")
        }
        let deadlocks = try database.server.connection().row(
            "SELECT deadlocks AS n FROM pg_stat_database WHERE datname = 'postgres'"
        )
        #expect(deadlocks?.integer("n") == 0)
    }

    @Test("of two that complete or end an upload concurrently one succeeds, and it is counted once")
    func completedOnce() async throws {
        let database = try Database()
        let nodes = [try await database.open(connections: 4), try await database.open(connections: 4)]
        defer { nodes.forEach { $0.close() } }
        for number in 0..<5 {
            let open = upload(TimeInterval(number))
            try await insert(open, into: nodes[0], effectiveLimits())
            var done = open
            done.state = .completed
            done.endedAt = start
            let changed = try await withThrowingTaskGroup(of: Bool.self) { group in
                for node in nodes + nodes {
                    group.addTask { [done] in try await node.complete(done, as: nil) }
                }
                return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            #expect(changed == 1)
            let ended = try await withThrowingTaskGroup(of: Bool.self) { group in
                for node in nodes + nodes {
                    group.addTask { try await node.end(open.id, as: .terminated, at: start) }
                }
                return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            #expect(ended == 1)
        }
        let alice = Account(.subject, "alice")
        let usage = try await nodes[1].accounts([alice])[alice]?.usage
        #expect(usage?.storedBytes == 0 && usage?.openUploads == 0)
        #expect(try await nodes[0].lastEvent() == 15)
    }

    @Test("rows locked for too long make calls unavailable, until they are released")
    func lockTimeout() async throws {
        let database = try Database()
        let state = try await database.open()
        defer { state.close() }
        var settings = database.settings()
        settings.lockTimeout = .milliseconds(20)
        let other = try await PostgresState.open(settings)
        defer { other.close() }
        let limits = effectiveLimits([Account(.subject, "alice")], storedBytes: 100)
        try await insert(upload(), into: state, limits)
        let holder = try Connection(to: Target(database.settings()))
        try holder.begin()
        try holder.run("UPDATE account SET open_uploads = open_uploads")
        let second = upload(1)
        #expect(
            await errorCode { () async throws(UploadError) in try await insert(second, into: other, limits) }
                == .unavailable
        )
        #expect(try await other.upload(second.id) == nil)
        holder.rollback()
        try await insert(second, into: other, limits)
    }

    @Test("a server that accepts statements and does not answer is given up", arguments: [false, true])
    func silence(isPipeline: Bool) throws {
        let database = try Database()
        let pool = ConnectionPool(try Target(database.settings()))
        defer { pool.close() }
        var silent: Connection?
        let begin = ContinuousClock.now
        #expect(throws: DatabaseFailure.self) {
            try pool.run { connection in
                silent = connection
                #expect(connection.answerTime == .seconds(35))
                try connection.begin()
                try connection.execute("SET LOCAL statement_timeout = 0")
                connection.answerTime = .milliseconds(20)
                defer { connection.rollback() }
                do throws(DatabaseFailure) {
                    if isPipeline {
                        try connection.run("SELECT pg_sleep(3600)")
                    } else {
                        try connection.execute("SELECT pg_sleep(3600)")
                    }
                } catch {
                    #expect(error.isConnectionLost && !error.isRepeatable)
                    #expect(UploadError(database: error).code == .unavailable)
                    throw error
                }
            }
        }
        #expect(ContinuousClock.now - begin < .seconds(3600))
        #expect(silent?.isUsable == false)
        silent = nil
        #expect(try pool.run { try $0.row("SELECT 1 AS n") }?.integer("n") == 1)
    }

    @Test("statements that are answered late, but in time, and large ones are run like others")
    func slowAnswers() throws {
        let connection = try Database().connection()
        connection.answerTime = .seconds(600)
        let text = String(repeating: "x", count: 5_000_000)
        let replies = (0..<4).map { _ in connection.send("SELECT $1::text AS t", [text], isPlannedAnew: true) }
        _ = try connection.row("SELECT pg_sleep(0.05) IS NULL")
        #expect(replies.allSatisfy { $0.row?.text("t") == text })
        connection.answerTime = nil
        try connection.execute("SELECT pg_sleep(0.05); SELECT 1")
        #expect(connection.isUsable)
        #expect(throws: DatabaseFailure.self) { try connection.execute("SELECT 1; SELECT nothing; SELECT 2") }
        #expect(connection.isUsable)
    }

    // MARK: Blobs

    @Test("texts of a blob are read back unchanged, whatever they contain")
    func blobTexts() async throws {
        let state = try await Database().open()
        defer { state.close() }
        let text = "a\0b\u{FFFF}0{\"\\\",NULL}'; --\n"
        var record = BlobRecordsContract.record()
        record.key = text
        record.entityTag = text
        record.multipart = text
        record.tails = [TailObject(key: text, length: 1, md5: [])]
        try await state.insert(record)
        #expect(try await state.blob(record.id) == record)
        let part = BlobPart(number: 1, size: 1, entityTag: text)
        _ = try await state.update(record, adding: [part], droppingFrom: nil)
        #expect(try await state.parts(of: record.id) == [part])
    }

    @Test("an unreadable blob is an error, not a crash")
    func unreadableBlob() async throws {
        let state = try await Database().open()
        defer { state.close() }
        let record = BlobRecordsContract.record()
        try await state.insert(record)
        try await state.write { try $0.run("UPDATE blob SET sides = 'no json'") }
        #expect(await errorCode { () async throws(UploadError) in try await state.blob(record.id) } == .storageFailure)
    }

    @Test("changing a blob while another node does waits, and is then refused")
    func blobChangedMeanwhile() async throws {
        let database = try Database()
        let state = try await database.open()
        defer { state.close() }
        let record = BlobRecordsContract.record()
        try await state.insert(record)
        try await database.interleave { connection in
            try connection.run("UPDATE blob SET version = version + 1, part_count = 1")
        } _: { other in
            let code = await errorCode { () async throws(UploadError) in
                try await other.update(record, adding: BlobRecordsContract.parts([2]), droppingFrom: 1)
            }
            #expect(code == .interrupted)
        }
        #expect(try await state.blob(record.id)?.partCount == 1)
        #expect(try await state.parts(of: record.id) == [])
    }

    @Test("no part is added to a blob that is removed meanwhile")
    func blobForgottenMeanwhile() async throws {
        let database = try Database()
        let state = try await database.open()
        defer { state.close() }
        let record = BlobRecordsContract.record()
        try await state.insert(record)
        try await database.interleave { connection in
            try connection.run("DELETE FROM blob")
        } _: { other in
            let code = await errorCode { () async throws(UploadError) in
                try await other.update(record, adding: BlobRecordsContract.parts([1]), droppingFrom: nil)
            }
            #expect(code == .interrupted)
        }
        #expect(try await state.parts(of: record.id) == [])
    }

    @Test("the cost of changing a blob does not depend on the number of its parts")
    func blobCost() async throws {
        let database = try Database()
        let state = try await database.open(connections: 1)
        defer { state.close() }
        var record = BlobRecordsContract.record()
        try await state.insert(record)
        /// Rows of parts that one change read, added, changed or removed, as the server counts them.
        func touched(adding number: Int) async throws -> Int64? {
            let current = record
            let counts = try await state.write { connection -> Int64? in
                let count = """
                    SELECT pg_stat_get_xact_tuples_inserted(oid) + pg_stat_get_xact_tuples_updated(oid)
                        + pg_stat_get_xact_tuples_deleted(oid) + pg_stat_get_xact_tuples_returned(oid)
                        + pg_stat_get_xact_tuples_fetched(oid) AS n
                    FROM pg_class WHERE oid = 'blob_part'::regclass
                    """
                let before = try connection.row(count)?.integer("n") ?? 0
                _ = try connection.update(current, adding: BlobRecordsContract.parts([number]), droppingFrom: number)
                return try connection.row(count)?.integer("n").map { $0 - before }
            }
            record.version += 1
            return counts
        }
        let few = try await touched(adding: 1)
        record.version = try await state.update(record, adding: BlobRecordsContract.parts(2...9_000), droppingFrom: nil)
        let many = try await touched(adding: 9_001)
        #expect(few == many)
        #expect(try #require(many) > 0)
    }

    // MARK: Events

    @Test("a reader that continues after its last event misses none, however many nodes write")
    func noGaps() async throws {
        let database = try Database()
        let nodes = [try await database.open(connections: 3), try await database.open(connections: 3)]
        let reader = try await database.open(connections: 1)
        defer { (nodes + [reader]).forEach { $0.close() } }
        let seen = try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<120 {
                group.addTask {
                    let upload = upload(TimeInterval(number), subject: "s\(number)")
                    try await insert(upload, into: nodes[number % 2], effectiveLimits())
                }
            }
            var seen: [Int64] = []
            while seen.count < 120, seen.last ?? 0 < 120 {
                seen += try await reader.events(EventQuery(after: seen.last ?? 0)).map(\.sequence)
            }
            try await group.waitForAll()
            return seen
        }
        #expect(seen == Array(1...120))
    }

    @Test("a transaction that is rolled back leaves no gap")
    func noGapAfterRollback() async throws {
        let state = try await Database().open()
        defer { state.close() }
        let upload = upload()
        _ = await errorCode { () async throws(UploadError) in
            try await state.write { connection in
                try connection.insert([.sample(.updated, of: upload)])
                throw UploadError(.rejected, "")
            }
        }
        try await state.record(.sample(.updated, of: upload))
        #expect(try await state.events(EventQuery(after: 0)).map(\.sequence) == [1])
    }

    @Test("a delivery that is settled while the next event of its upload is numbered makes that event due")
    func reconciledMeanwhile() async throws {
        let database = try Database()
        let state = try await database.open()
        defer { state.close() }
        let upload = upload()
        try await state.record(.sample(.created, of: upload))
        let claimed = try #require(try await state.claimDeliveries(limit: 5, for: 60).first)
        try await database.interleave { connection in
            try connection.insert([.sample(.completed, of: upload)])
            connection.number(try connection.unnumberedEvents(limit: 10))
            try connection.flush()
        } _: { other in
            try await other.settle(claimed, as: .delivered)
        }
        #expect(try await state.claimDeliveries(limit: 5, for: 60).map(\.sequence) == [2])
    }

    @Test("nodes that remove records concurrently do not disturb each other")
    func forgetTogether() async throws {
        let database = try Database()
        let nodes = [try await database.open(), try await database.open()]
        defer { nodes.forEach { $0.close() } }
        for number in 0..<40 {
            let upload = upload(TimeInterval(number))
            try await nodes[0].insert(upload, consuming: nil)
            #expect(try await nodes[1].end(upload.id, as: .terminated, at: start))
        }
        let later = start.addingTimeInterval(100)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for node in nodes + nodes { group.addTask { try await node.forgetEnded(before: later, dead: later) } }
            try await group.waitForAll()
        }
        try await nodes[0].forgetEnded(before: later, dead: later)
        #expect(try await nodes[0].uploads(UploadQuery()) == [])
    }
}
