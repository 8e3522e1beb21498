import Foundation
import GRDB
import MetricsKit
import SluiceTesting
import StateRecords
import SystemIO
import Testing
import Transport
import UploadModel

@testable import SQLiteState

@Suite("SQLite state", .timeLimit(.minutes(10)))
struct SQLiteStateTests {
    private let start = Date(timeIntervalSince1970: 1_750_000_000)

    private func open(_ path: String, busyTimeout: Duration = .seconds(5)) throws -> SQLiteState {
        try SQLiteState(path: path, pool: BlockingPool(threads: 3, label: "test-state"), busyTimeout: busyTimeout)
    }

    private func upload(_ seconds: TimeInterval = 0) -> Upload {
        let created = start.addingTimeInterval(seconds)
        return Upload(
            id: UploadID.generate(at: created),
            dialect: "tus",
            subject: "alice",
            principal: "key_1",
            length: 5,
            createdAt: created,
            expiresAt: created.addingTimeInterval(60)
        )
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

    private func code<Value>(_ body: () async throws -> Value) async -> UploadError.Code? {
        let error = await #expect(throws: UploadError.self) { _ = try await body() }
        return error?.code
    }

    @Test("values are read with their types, and nothing else is taken for them")
    func values() async throws {
        let directory = try TemporaryDirectory()
        let state = try open(directory.path("state.sqlite"))
        defer { state.close() }
        let rows = try await state.read { database in
            try database.rows(
                """
                SELECT NULL AS first, 7 AS integer, 'a' || char(0xFFFF) || '0b' AS text, x'00ff' AS bytes, '' AS empty,
                    x'' AS none, 1.5 AS fraction, 2.0 AS whole, 0 AS no, 1 AS yes UNION ALL SELECT 'é', 1, 2, 3, 4, 5, 6, 7, 8, 9
                """
            )
        }
        #expect(rows.count == 2 && rows[1].text("first") == "é" && rows[1].integer("yes") == 9)
        let row = try #require(rows.first)
        #expect(row.isNull("first") && row.isNull("unknown") && row.text("first") == nil)
        #expect(row.integer("integer") == 7 && row.text("integer") == nil && row.bytes("integer") == nil)
        #expect(row.text("text") == "a\0b" && row.integer("text") == nil && row.bytes("text") == nil)
        #expect(row.bytes("bytes") == [0, 255] && row.text("bytes") == nil && row.flag("bytes") == nil)
        #expect(row.text("empty") == "" && row.bytes("none") == [])
        #expect(!row.isNull("fraction") && row.integer("fraction") == nil && row.integer("whole") == 2)
        #expect(row.flag("no") == false && row.flag("yes") == true)
        #expect(throws: UnreadableRecord.self) { _ = try row.optional("fraction", of: "table") as Int64? }
        #expect(throws: UnreadableRecord.self) { _ = try row.value("first", of: "table") as String }
    }

    @Test("it meets the contract of state stores", arguments: StateStoreContract.all)
    func contract(_ contract: Contract<any StateStore>) async throws {
        let directory = try TemporaryDirectory()
        let state = try open(directory.path("state.sqlite"))
        // Most contracts look for events that no hook receives; EventRecordingTests are about those.
        try await state.keepEvents(until: .distantFuture, at: .distantPast)
        try await contract.check(state)
        state.close()
    }

    @Test("it meets the contract of records of blobs", arguments: BlobRecordsContract.all)
    func blobs(_ contract: Contract<any BlobRecords>) async throws {
        let directory = try TemporaryDirectory()
        let state = try open(directory.path("state.sqlite"))
        try await contract.check(state)
        state.close()
    }

    @Test("it meets the contract of marks", arguments: StoreMarksContract.all)
    func marks(_ contract: Contract<any StoreMarks>) async throws {
        let directory = try TemporaryDirectory()
        let state = try open(directory.path("state.sqlite"))
        try await contract.check(state)
        state.close()
    }

    @Test("after closing, the single file contains everything, even while another process has it open")
    func completeCopy() async throws {
        let directory = try TemporaryDirectory()
        let (path, copy) = (directory.path("state.sqlite"), directory.path("copy.sqlite"))
        let upload = upload()
        let state = try open(path)
        let other = try DatabaseQueue(path: path)
        #expect(try await other.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM upload") } == 0)
        try await state.insert(upload, consuming: nil)
        state.close()
        try FileManager.default.copyItem(atPath: path, toPath: copy)
        try other.close()
        let opened = try open(copy)
        #expect(try await opened.upload(upload.id) == upload)
        opened.close()
    }

    @Test("recorded data survives closing and opening again")
    func reopen() async throws {
        let directory = try TemporaryDirectory()
        let upload = upload()
        do {
            let state = try open(directory.path("state.sqlite"))
            try await state.insert(upload, consuming: nil)
            try await state.insert(key(1))
            state.close()
            #expect(await code { try await state.upload(upload.id) } == .storageFailure)
        }
        let state = try open(directory.path("state.sqlite"))
        #expect(try await state.upload(upload.id) == upload)
        #expect(try await state.keys() == [key(1)])
    }

    @Test("its files are accessible to this user only, even if they were not before")
    func mode() async throws {
        let directory = try TemporaryDirectory()
        let path = directory.path("state.sqlite")
        #expect(FileManager.default.createFile(atPath: path, contents: nil, attributes: [.posixPermissions: 0o644]))
        let state = try open(path)
        try await state.insert(key(1))
        let names = try FileManager.default.contentsOfDirectory(atPath: directory.path)
        #expect(names.sorted() == ["state.sqlite", "state.sqlite-shm", "state.sqlite-wal"])
        for name in names {
            let attributes = try FileManager.default.attributesOfItem(atPath: directory.path(name))
            #expect(attributes[.posixPermissions] as? Int == 0o600, "\(name)")
        }
    }

    @Test(
        "it writes ahead, synchronises every transaction if required, and enforces foreign keys",
        arguments: [(true, "2"), (false, "1")]
    )
    func pragmas(isSynchronous: Bool, level: String) async throws {
        let directory = try TemporaryDirectory()
        let path = directory.path("state.sqlite")
        let pool = BlockingPool(threads: 1, label: "test-state")
        let state = try SQLiteState(path: path, isSynchronous: isSynchronous, pool: pool)
        let values = try await state.write { database in
            try ["journal_mode", "synchronous", "foreign_keys", "busy_timeout"].map {
                try String.fetchOne(database, sql: "PRAGMA \($0)")
            }
        }
        #expect(values == ["wal", level, "1", "5000"])
    }

    /// SQLite's query plan of a statement, one step each (https://www.sqlite.org/eqp.html).
    private func plan(_ state: SQLiteState, _ sql: String, _ arguments: SQLiteArguments) async throws -> [String] {
        try await state.read { database in
            try Row.fetchAll(database, sql: "EXPLAIN QUERY PLAN " + sql, arguments: arguments.bound).map {
                $0["detail"]
            }
        }
    }

    @Test("lists with any filter read an index, without sorting")
    func plansOfLists() async throws {
        let directory = try TemporaryDirectory()
        let state = try open(directory.path("state.sqlite"))
        let stateSets: [Set<Upload.State>] = [
            [], [.open], [.completed], [.open, .completed], [.terminated, .expired], Set(Upload.State.allCases),
        ]
        for states in stateSets {
            for subject in [nil, "alice"] {
                for issuer in [nil, "key_1"] {
                    for dialect in [nil, "tus"] {
                        for before in [nil, UploadID.generate(at: start)] {
                            let query = UploadQuery(
                                states: states,
                                subject: subject,
                                issuer: issuer,
                                dialect: dialect,
                                createdAfter: before == nil ? nil : start,
                                before: before
                            )
                            let (sql, arguments) = SQLiteState.statement(of: query)
                            let steps = try await plan(state, sql, SQLiteArguments(arguments))
                            let isFiltered = sql.contains("INDEXED BY") || before != nil
                            // Without a filter, the table itself is read from its end.
                            let tables = steps.filter { $0.contains(" upload") }
                            let isGood = tables.allSatisfy {
                                isFiltered ? $0.hasPrefix("SEARCH upload USING ") : $0 == "SCAN upload"
                            }
                            #expect(isGood && !tables.isEmpty, "\(sql): \(steps)")
                            let isUnion = sql.contains("UNION ALL")
                            // With several states, their short pages are merged.
                            let sorts = steps.contains { $0.contains("TEMP B-TREE") }
                            #expect(!sorts || isUnion, "\(sql): \(steps)")
                        }
                    }
                }
            }
        }
    }

    @Test("events are read from a listener's position, those of one upload by their index")
    func plansOfEvents() async throws {
        let directory = try TemporaryDirectory()
        let state = try open(directory.path("state.sqlite"))
        let id = UploadID.generate(at: start)
        for query in [
            EventQuery(after: 5), EventQuery(after: 5, through: 9, subject: "alice", kinds: [.created, .updated]),
            EventQuery(after: 5, upload: id), EventQuery(after: 5, through: 9, upload: id, kinds: [.created]),
        ] {
            let (sql, arguments) = SQLiteState.statement(of: query)
            let steps = try await plan(state, sql, arguments)
            let way =
                query.upload == nil ? "INTEGER PRIMARY KEY (" : "INDEX event_by_upload (upload_id=? AND sequence>?"
            #expect(steps.count == 1 && steps[0].hasPrefix("SEARCH event USING " + way), "\(sql): \(steps)")
        }
    }

    @Test("records of the first release read as before, and can be changed")
    func firstRelease() async throws {
        let directory = try TemporaryDirectory()
        let path = directory.path("state.sqlite")
        let old = try DatabaseQueue(path: path)
        try DatabaseFile.migrator.migrate(old, upTo: "0001 uploads, media, used grants, API keys")
        var upload = upload()
        upload.length = nil
        try await old.write { [upload] database in
            try database.execute(
                sql: """
                    INSERT INTO upload (id, dialect, subject, principal, length, state, metadata, created_at, updated_at, expires_at)
                    VALUES (?, 'tus', 'alice', 'key_1', NULL, 'open', '{}', ?, ?, ?)
                    """,
                arguments: [
                    upload.id.text, Milliseconds(upload.createdAt), Milliseconds(upload.updatedAt),
                    upload.expiresAt.map(Milliseconds.init),
                ]
            )
        }
        try old.close()
        let state = try open(path)
        upload.issuer = "key_1"
        #expect(try await state.upload(upload.id) == upload)
        #expect(try await state.setLength(of: upload.id, to: 5, updatedAt: start))
        #expect(try await state.expiredUploads(at: start.addingTimeInterval(60), limit: 5) == [upload.id])
    }

    @Test("the usage of accounts is computed from the uploads of an older release")
    func accountsOfAnOlderRelease() async throws {
        let directory = try TemporaryDirectory()
        let path = directory.path("state.sqlite")
        let old = try DatabaseQueue(path: path)
        try DatabaseFile.migrator.migrate(old, upTo: "0002 lengths that are told later, concatenations")
        /// State, length, concatenation as sent, its parts, principal (a key or a grant).
        let uploads: [(String, Int64?, String?, String?, String)] = [
            ("completed", 10, nil, nil, "key_1"), ("open", 20, nil, nil, "key_1"), ("open", nil, nil, nil, "grant_1"),
            ("completed", 40, "partial", nil, "grant_1"), ("completed", 80, "final;x", "[]", "key_1"),
            ("terminated", 160, nil, nil, "key_1"),
        ]
        try await old.write { database in
            for (index, (state, length, raw, parts, principal)) in uploads.enumerated() {
                let id = UploadID.generate(at: start.addingTimeInterval(TimeInterval(index))).text
                try database.execute(
                    sql: """
                        INSERT INTO upload (id, dialect, subject, principal, length, state, metadata, created_at,
                            updated_at, ended_at, concatenation_raw, concatenation_parts)
                        VALUES (?, 'tus', 'alice', ?, ?, ?, '{}', 0, 0, ?, ?, ?)
                        """,
                    arguments: [id, principal, length, state, state == "open" ? nil : 0, raw, parts]
                )
                guard state == "completed", raw != "partial" else { continue }
                try database.execute(
                    sql: "INSERT INTO media (id, subject, size, metadata, created_at) VALUES (?, 'alice', ?, '{}', 0)",
                    arguments: [id, length]
                )
            }
        }
        try old.close()
        let state = try open(path)
        let records = try await state.accounts([Account(.subject, "alice"), Account(.key, "key_1")])
        let alice = try #require(records[Account(.subject, "alice")]).usage
        #expect((alice.storedBytes, alice.reservedBytes, alice.openUploads) == (90, 60, 2))
        let key = try #require(records[Account(.key, "key_1")]).usage
        #expect((key.storedBytes, key.reservedBytes, key.openUploads) == (90, 20, 1))
    }

    @Test("two processes write concurrently, and each sees what the other recorded")
    func twoProcesses() async throws {
        let directory = try TemporaryDirectory()
        let server = try open(directory.path("state.sqlite"))
        let command = try open(directory.path("state.sqlite"))
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<60 {
                group.addTask { try await server.insert(upload(TimeInterval(number)), consuming: nil) }
                group.addTask { try await command.insert(key(number)) }
            }
            try await group.waitForAll()
        }
        #expect(try await server.keys().count == 60)
        #expect(try await command.uploads(UploadQuery(limit: 100)).count == 60)
        #expect(try await command.revokeKey("key_7", at: start))
        #expect(try await server.key(digest: key(7).digest)?.revokedAt == start)
    }

    @Test("concurrent openers of a new database all get the same one")
    func openTogether() async throws {
        for _ in 0..<5 {
            let directory = try TemporaryDirectory()
            let path = directory.path("state.sqlite")
            let pool = BlockingPool(threads: 8, label: "test-open")
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<8 {
                    group.addTask {
                        let state = try await pool.run { () -> Result<SQLiteState, any Error> in
                            Result { try open(path) }
                        }.get()
                        try await state.insert(key(number))
                    }
                }
                try await group.waitForAll()
            }
            #expect(try await open(path).keys().count == 8)
        }
    }

    @Test("while another process writes for too long it is unavailable, and recovers afterwards")
    func busy() async throws {
        let directory = try TemporaryDirectory()
        let state = try open(directory.path("state.sqlite"), busyTimeout: .milliseconds(20))
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let other = try DatabaseQueue(path: directory.path("state.sqlite"), configuration: configuration)
        try await other.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
        #expect(await code { try await state.insert(key(1)) } == .unavailable)
        #expect(try await state.keys() == [])
        try await other.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
        try await state.insert(key(1))
    }

    @Test("a file that is not a database is refused with its name")
    func noDatabase() throws {
        let directory = try TemporaryDirectory()
        let path = directory.path("state.sqlite")
        try Data("this is a text that is not a database, and long enough to show it".utf8).write(
            to: URL(fileURLWithPath: path)
        )
        let error = #expect(throws: SQLiteStateError.self) { try open(path) }
        #expect(error?.path == path)
        #expect("\(try #require(error))".contains(path))
    }

    @Test("a missing directory is refused with its name")
    func noDirectory() throws {
        let directory = try TemporaryDirectory()
        let error = #expect(throws: SQLiteStateError.self) { try open(directory.path("missing/state.sqlite")) }
        #expect(error?.path == directory.path("missing/state.sqlite"))
    }

    @Test("a database of a newer version is left unchanged")
    func newer() async throws {
        let directory = try TemporaryDirectory()
        let path = directory.path("state.sqlite")
        let state = try open(path)
        try await state.write { try $0.execute(sql: "INSERT INTO grdb_migrations VALUES ('9999 the future')") }
        state.close()
        let error = #expect(throws: SQLiteStateError.self) { try open(path) }
        #expect(error?.reason.contains("newer version") == true)
    }

    @Test("an unreadable record is an error, not a crash")
    func unreadable() async throws {
        let directory = try TemporaryDirectory()
        let state = try open(directory.path("state.sqlite"))
        let upload = upload()
        try await state.insert(upload, consuming: nil)
        try await state.write { try $0.execute(sql: "UPDATE upload SET metadata = 'no json'") }
        #expect(await code { try await state.upload(upload.id) } == .storageFailure)
        try await state.write { try $0.execute(sql: "UPDATE upload SET id = 'no id'") }
        #expect(await code { try await state.uploads(UploadQuery()) } == .storageFailure)
    }

    /// A state whose time is a test's.
    private func open(_ path: String, _ clock: ManualClock) throws -> SQLiteState {
        try SQLiteState(path: path, pool: BlockingPool(threads: 3, label: "test-state"), clock: clock)
    }

    @Test("events that cannot be read are put off ever longer, and keep no others from being delivered")
    func unreadableEvents() async throws {
        let (directory, clock) = (try TemporaryDirectory(), ManualClock(start.addingTimeInterval(100)))
        let state = try open(directory.path("state.sqlite"), clock)
        for number in 0..<3 { try await state.record(.sample(.created, of: upload(TimeInterval(number)))) }
        try await state.write { try $0.execute(sql: "UPDATE event SET content = 'no json' WHERE sequence < 3") }
        #expect(try await state.claimDeliveries(limit: 1, for: 60).map(\.sequence) == [3])
        for pause in [2, 4, 8] as [TimeInterval] {
            #expect(try await state.claimDeliveries(limit: 1, for: 60).isEmpty)
            #expect(try await state.nextDelivery() == pause)
            clock.advance(by: pause)
        }
        // A version that can read them.
        try await state.write { database in
            try database.execute(sql: "UPDATE event SET content = (SELECT content FROM event WHERE sequence = 3)")
        }
        #expect(try await state.claimDeliveries(limit: 9, for: 60).map(\.sequence) == [1, 2])
        state.close()
    }

    @Test("of very many rows that cannot be read those that are not remembered are put off for an hour")
    func manyUnreadableRows() {
        let rows = UnreadableRows(MetricsRegistry())
        for number in 0..<10_000 { #expect(rows.pause("event", String(number)) == 2) }
        #expect(rows.pause("event", "10000") == 3600)
        #expect(rows.pause("event", "0") == 4)
        #expect(rows.pause("pull", "0") == 3600)
    }

    @Test("pulls that cannot be read are put off ever longer, and keep no others waiting")
    func unreadablePulls() async throws {
        let (directory, clock) = (try TemporaryDirectory(), ManualClock(start.addingTimeInterval(100)))
        let state = try open(directory.path("state.sqlite"), clock)
        let uploads = (0..<3).map { upload(TimeInterval($0)) }
        for (number, upload) in uploads.enumerated() {
            let due = start.addingTimeInterval(TimeInterval(number))
            let job = PullJob(uploadID: upload.id, subject: "alice", url: "u", sealed: "s", nextAttemptAt: due)
            try await state.insert(upload, consuming: nil, pulling: job)
        }
        try await state.write { database in
            let last = uploads[2].id.text
            try database.execute(sql: "UPDATE pull SET content_types = 'no json' WHERE upload_id <> '\(last)'")
        }
        let claimed = try await state.claimPulls(limit: 1, for: 60)
        #expect(claimed.map(\.uploadID) == [uploads[2].id])
        for pause in [2, 4, 8] as [TimeInterval] {
            #expect(try await state.claimPulls(limit: 1, for: 60).isEmpty)
            #expect(try await state.nextPull() == pause)
            clock.advance(by: pause)
        }
        #expect(try await state.update(claimed[0], .never))
        try await state.write { try $0.execute(sql: "UPDATE pull SET content_types = '[]'") }
        #expect(try await state.claimPulls(limit: 9, for: 60).map(\.uploadID) == uploads.prefix(2).map(\.id))
        state.close()
    }

    @Test(
        "a blob that cannot be read is an error, not a crash",
        arguments: ["sides = 'no json'", "sides = '[{}]'", "part_bytes = 'x'", "crc32c = -1", "state = 'new'"]
    )
    func unreadableBlob(_ change: String) async throws {
        let directory = try TemporaryDirectory()
        let state = try open(directory.path("state.sqlite"))
        let record = BlobRecordsContract.record()
        try await state.insert(record)
        try await state.write { database in
            // Another version may write what this one would not: in a table without its constraints.
            try database.execute(
                sql: """
                    CREATE TABLE lax AS SELECT * FROM blob;
                    DROP TABLE blob_part;
                    DROP TABLE blob;
                    ALTER TABLE lax RENAME TO blob;
                    UPDATE blob SET \(change);
                    """
            )
        }
        #expect(await code { try await state.blob(record.id) } == .storageFailure)
    }

    @Test("times keep their milliseconds, and extreme times do not trap")
    func milliseconds() {
        for value in [0, 1, 999, 1_750_000_000_123, 253_402_300_799_999] as [Int64] {
            let date = Date(timeIntervalSince1970: Double(value) / 1000)
            #expect(Milliseconds(date).value == value)
            #expect(Milliseconds(Milliseconds(date).date).value == value)
        }
        #expect(Milliseconds(.distantFuture).value > 0)
        #expect(Milliseconds(Date(timeIntervalSince1970: .infinity)).value == 253_402_300_799_999)
        #expect(Milliseconds(Date(timeIntervalSince1970: -5)).value == 0)
    }

    @Test("no statement scans a whole table")
    func plans() async throws {
        let directory = try TemporaryDirectory()
        let state = try open(directory.path("state.sqlite"))
        let plans = try await state.read { database in
            try [
                """
                SELECT * FROM upload INDEXED BY upload_by_subject WHERE state = 'open' AND subject = 'a' AND id < 'x'
                ORDER BY id DESC LIMIT 5
                """,
                "SELECT * FROM upload WHERE state = 'open' AND id < 'x' ORDER BY id DESC LIMIT 5",
                "SELECT * FROM upload INDEXED BY upload_by_subject WHERE subject = 'a' ORDER BY id DESC LIMIT 5",
                "SELECT * FROM upload WHERE id < 'x' ORDER BY id DESC LIMIT 5",
                """
                SELECT id FROM upload INDEXED BY upload_by_expiry WHERE expires_at IS NOT NULL AND expires_at <= 5
                ORDER BY expires_at LIMIT 5
                """,
                "DELETE FROM upload INDEXED BY upload_ended WHERE state IN ('terminated', 'expired') AND ended_at < 5",
                "DELETE FROM used_grant WHERE expires_at < 5",
                "SELECT id FROM upload WHERE id IN ('a', 'b') AND state IN ('open', 'completed')",
                "SELECT * FROM upload WHERE id IN ('a', 'b')",
                "SELECT final_id AS id FROM awaited_part WHERE part_id = 'a' ORDER BY final_id",
                "DELETE FROM awaited_part WHERE final_id = 'a'",
                "SELECT * FROM api_key WHERE digest = x'00'",
                "SELECT * FROM blob_part WHERE blob_id = 'a' ORDER BY number",
                "DELETE FROM blob_part WHERE blob_id = 'a' AND number >= 5",
                "SELECT id FROM blob WHERE id > 'a' ORDER BY id LIMIT 5",
                """
                SELECT id FROM blob INDEXED BY blob_completing WHERE state = 'completing' AND id > '' ORDER BY id LIMIT 5
                """,
            ].map { sql in
                try Row.fetchAll(database, sql: "EXPLAIN QUERY PLAN " + sql).map { row in "\(row["detail"] as String)" }
                    .joined(separator: "; ")
            }
        }
        for plan in plans {
            #expect(plan.contains("SEARCH"))
            #expect(!plan.contains("SCAN"))
            #expect(!plan.contains("TEMP B-TREE"))
        }
    }

    @Test(
        "a full disk is reported as such, nothing is recorded partially, and it works again when there is space",
        .enabled(
            if: SmallFileSystem.isAvailable,
            "this process may not mount a file system (it needs to be the superuser)"
        )
    )
    func full() async throws {
        let fileSystem = try SmallFileSystem(bytes: 1 << 20)
        let state = try open(fileSystem.path + "/state.sqlite")
        let ballast = URL(fileURLWithPath: fileSystem.path + "/ballast")
        let values = ["note": String(repeating: "x", count: 20_000)]
        var recorded = 0
        var failure: UploadError.Code?
        try Data(count: 400 << 10).write(to: ballast)
        while failure == nil, recorded < 200 {
            var upload = upload(TimeInterval(recorded))
            upload.metadata.values = values
            do throws(UploadError) {
                try await state.insert(upload, consuming: nil)
                recorded += 1
            } catch {
                failure = error.code
            }
        }
        #expect(failure == .storageFull)
        #expect(recorded > 0)
        #expect(try await state.uploads(UploadQuery(limit: 500)).count == recorded)
        try FileManager.default.removeItem(at: ballast)
        try await state.insert(upload(1000), consuming: nil)
        #expect(try await state.uploads(UploadQuery(limit: 500)).count == recorded + 1)
        state.close()
    }

    @Test(
        "on a full disk a change of a blob records nothing, and can be repeated",
        .enabled(
            if: SmallFileSystem.isAvailable,
            "this process may not mount a file system (it needs to be the superuser)"
        )
    )
    func fullWithParts() async throws {
        let fileSystem = try SmallFileSystem(bytes: 1 << 20)
        let state = try open(fileSystem.path + "/state.sqlite")
        let ballast = URL(fileURLWithPath: fileSystem.path + "/ballast")
        var record = BlobRecordsContract.record()
        try await state.insert(record)
        record.version = try await state.update(record, adding: BlobRecordsContract.parts(1...3), droppingFrom: nil)
        try Data(count: 400 << 10).write(to: ballast)
        var changed = record
        changed.state = .completing
        let many = BlobRecordsContract.parts(2...10_000, tag: String(repeating: "b", count: 100))
        #expect(await code { try await state.update(changed, adding: many, droppingFrom: 1) } == .storageFull)
        #expect(try await state.blob(record.id) == record)
        #expect(try await state.parts(of: record.id) == BlobRecordsContract.parts(1...3))
        try FileManager.default.removeItem(at: ballast)
        #expect(try await state.update(changed, adding: Array(many.prefix(5)), droppingFrom: 1) == 3)
        #expect(try await state.parts(of: record.id) == Array(many.prefix(5)))
        state.close()
    }
}
