import Foundation
import SluiceTesting
import StateRecords
import Testing
import UploadModel

@testable import PostgresState

@Suite(
    "Objects in PostgreSQL state",
    .enabled(if: PostgresServer.isAvailable, "\(PostgresServer.missing)"),
    .timeLimit(.minutes(10))
)
struct ObjectTests {
    private let start = Date(timeIntervalSince1970: 1_750_000_000)
    private let name = ObjectName(bucket: "b", key: "k")

    private func upload(_ seconds: TimeInterval = 0) -> Upload {
        let created = start.addingTimeInterval(seconds)
        return Upload(
            id: UploadID.generate(at: created),
            key: "k",
            bucket: "b",
            takesParts: true,
            dialect: "objects",
            subject: "alice",
            principal: "key_1",
            length: 5,
            createdAt: created
        )
    }

    private func completed(_ upload: Upload) -> Upload {
        var done = upload
        done.state = .completed
        done.offset = 5
        done.endedAt = start
        return done
    }

    private func part(_ number: Int, _ location: String = "l") -> PartRecord {
        PartRecord(
            number: number,
            size: 5,
            md5: [UInt8](repeating: 1, count: 16),
            crc64: 7,
            location: location,
            storedAt: start
        )
    }

    /// A state with the bucket and these open uploads.
    private func open(_ database: Database, _ uploads: [Upload] = []) async throws -> PostgresState {
        let state = try await database.open()
        #expect(try await state.insert(BucketRecord(name: "b", createdAt: start)))
        for upload in uploads { try await state.insert(upload, consuming: nil) }
        return state
    }

    // MARK: Several nodes

    @Test("completing an object while another node uses its name for another one waits, and tries again")
    func nameTaken() async throws {
        let database = try Database()
        let uploads = [upload(), upload(1)]
        let state = try await open(database, uploads)
        defer { state.close() }
        let first = completed(uploads[0])
        let second = completed(uploads[1])
        try await database.interleave { connection in
            try connection.insert(Media(of: first))
        } _: { other in
            let code = await errorCode { () async throws(UploadError) in
                try await other.complete(second, as: Media(of: second))
            }
            #expect(code == .busy)
        }
        #expect(try await state.object(name)?.id == first.id)
        #expect(try await state.upload(second.id) == uploads[1])
        #expect(try await state.complete(second, as: Media(of: second), replacing: first.id))
        #expect(try await state.object(name)?.id == second.id)
    }

    @Test("waiting for a name that then stays free succeeds")
    func nameLeft() async throws {
        let database = try Database()
        let uploads = [upload(), upload(1)]
        let state = try await open(database, uploads)
        defer { state.close() }
        let second = completed(uploads[1])
        try await database.interleave { connection in
            try connection.insert(Media(of: completed(uploads[0])))
            try connection.run("DELETE FROM media")
        } _: { (other) async throws in
            #expect(try await other.complete(second, as: Media(of: second)))
        }
        #expect(try await state.object(name)?.id == second.id)
    }

    @Test("replacing an object while another node ends it waits, and tries again")
    func replacedEnded() async throws {
        let database = try Database()
        let uploads = [upload(), upload(1)]
        let state = try await open(database, uploads)
        defer { state.close() }
        let old = completed(uploads[0])
        let new = completed(uploads[1])
        #expect(try await state.complete(old, as: Media(of: old)))
        try await database.interleave { connection in
            try connection.run("UPDATE upload SET state = 'terminated' WHERE id = $1", [old.id.text])
            try connection.run("DELETE FROM media WHERE id = $1", [old.id.text])
        } _: { other in
            let code = await errorCode { () async throws(UploadError) in
                try await other.complete(new, as: Media(of: new), replacing: old.id)
            }
            #expect(code == .busy)
        }
        #expect(try await state.complete(new, as: Media(of: new)))
    }

    @Test(
        "adding a part while another node begins or performs the completion waits, and is refused",
        arguments: [#"attributes = '{"headers":{},"tags":{},"completing":[1]}'"#, "state = 'completed', ended_at = 1"]
    )
    func partTooLate(change: String) async throws {
        let database = try Database()
        let upload = upload()
        let state = try await open(database, [upload])
        defer { state.close() }
        let part = part(1)
        try await database.interleave { connection in
            try connection.run("UPDATE upload SET \(change) WHERE id = $1", [upload.id.text])
        } _: { other in
            #expect(
                await errorCode { () async throws(UploadError) in try await other.putPart(part, of: upload.id) }
                    == .gone
            )
        }
        #expect(try await state.objectParts(of: upload.id, after: 0, limit: 5) == [])
    }

    @Test("completing an upload while another node adds a part waits, and forgets the part")
    func completedWhilePartComes() async throws {
        let database = try Database()
        let upload = upload()
        let state = try await open(database, [upload])
        defer { state.close() }
        let done = completed(upload)
        let part = part(1)
        try await database.interleave { connection in
            _ = try connection.row("SELECT id FROM upload WHERE id = $1 FOR SHARE", [upload.id.text])
            try connection.run(
                "INSERT INTO object_part VALUES ($1, 1, 5, '', 0, NULL, 'l', 0)",
                [upload.id.text]
            )
        } meanwhile: { () async throws in
            // Another part does not wait.
            #expect(try await state.putPart(part.numbered(2), of: upload.id) == nil)
        } _: { (other) async throws in
            #expect(try await other.complete(done, as: Media(of: done)))
        }
        let count = try await state.read { try $0.row("SELECT count(*) AS n FROM object_part")?.integer("n") }
        #expect(count == 0)
    }

    @Test("replacing a part that another node is adding waits, and returns that part")
    func partReplacedMeanwhile() async throws {
        let database = try Database()
        let upload = upload()
        let state = try await open(database, [upload])
        defer { state.close() }
        let part = part(1, "second")
        try await database.interleave { connection in
            try connection.run(
                "INSERT INTO object_part VALUES ($1, 1, 5, '', 0, NULL, 'first', 0)",
                [upload.id.text]
            )
        } _: { (other) async throws in
            #expect(try await other.putPart(part, of: upload.id)?.location == "first")
        }
        #expect(try await state.objectPart(1, of: upload.id) == part)
    }

    @Test("removing a bucket while another node creates an upload in it waits, and keeps the bucket")
    func bucketUsedMeanwhile() async throws {
        let database = try Database()
        let upload = upload()
        let state = try await open(database, [upload])
        defer { state.close() }
        #expect(try await state.end(upload.id, as: .terminated, at: start))
        try await database.interleave { connection in
            connection.keepBucket("b")
            try connection.run("UPDATE upload SET state = 'open', ended_at = NULL")
        } meanwhile: { () async throws in
            #expect(try await state.setDocument("cors", to: "x", ofBucket: "b"))
        } _: { (other) async throws in
            #expect(try await other.removeBucket("b") == false)
        }
        #expect(try await state.bucket("b")?.documents == ["cors": "x"])
    }

    @Test("creating an upload in a bucket that another node removes waits, and is refused")
    func bucketForgottenMeanwhile() async throws {
        let database = try Database()
        let state = try await open(database)
        defer { state.close() }
        let upload = upload()
        try await database.interleave { connection in
            try connection.run("DELETE FROM bucket")
        } _: { other in
            let code = await errorCode { () async throws(UploadError) in try await other.insert(upload, consuming: nil)
            }
            #expect(code == .notFound)
        }
        #expect(try await state.upload(upload.id) == nil)
    }

    /// Completes an object that replaces the current one with its name.
    ///
    /// - Returns: Whether no other object took the name meanwhile.
    private func replace(_ done: Upload, by node: PostgresState) async throws -> Bool {
        let replaced = try await node.object(ObjectName(bucket: "b", key: done.key ?? ""))?.id
        var events = [EventRecord.sample(.completed, of: done)]
        if let replaced, let old = try await node.upload(replaced) { events.append(.sample(.terminated, of: old)) }
        let recorded = events
        let code = await errorCode { () async throws(UploadError) in
            let isFirst = try await node.complete(
                done,
                as: Media(of: done),
                replacing: replaced,
                under: EffectiveLimits(policies: [:], period: QuotaPeriod(around: start, length: 86400)),
                recording: recorded
            )
            #expect(isFirst)
        }
        #expect(code == nil || code == .busy)
        return code == nil
    }

    @Test("nodes that replace objects of several accounts in all directions neither deadlock nor miscount")
    func replaceEverything() async throws {
        let database = try Database()
        let nodes = [try await database.open(connections: 6), try await database.open(connections: 6)]
        defer { nodes.forEach { $0.close() } }
        #expect(try await nodes[0].insert(BucketRecord(name: "b", createdAt: start)))
        let people = ["a", "b", "c"]
        let counter = "SELECT deadlocks AS n FROM pg_stat_database WHERE datname = 'postgres'"
        let deadlocks = try database.server.connection().row(counter)?.integer("n")
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<36 {
                group.addTask {
                    var new = upload(TimeInterval(number))
                    new.key = "k\(number % 2)"
                    new.subject = people[number % 3]
                    new.issuer = "key_\(people[number / 3 % 3])"
                    let node = nodes[number % 2]
                    try await node.insert(new, consuming: nil)
                    var isBusy = true
                    while isBusy { isBusy = try await !replace(completed(new), by: node) }
                }
            }
            try await group.waitForAll()
        }
        let objects = try await nodes[0].objects(ObjectQuery(bucket: "b", limit: 9))
        #expect(objects.map(\.key) == ["k0", "k1"])
        let accounts = people.flatMap { [Account(.subject, $0), Account(.key, "key_\($0)")] }
        let usage = try await nodes[1].accounts(accounts)
        for kind in [Account.Kind.subject, .key] {
            let all = usage.filter { $0.key.kind == kind }.values.map(\.usage)
            #expect(all.reduce(0) { $0 + $1.storedBytes } == 10)
            #expect(all.reduce(0) { $0 + $1.openUploads } == 0)
        }
        #expect(try database.server.connection().row(counter)?.integer("n") == deadlocks)
    }

    // MARK: Schema

    @Test("pages of objects and of uploads in parts read ranges of an index, without sorting")
    func plans() async throws {
        let state = try await open(try Database())
        defer { state.close() }
        try await state.write { connection in
            try connection.run(
                """
                INSERT INTO upload (id, dialect, principal, length, reserved_bytes, completes_when_full, state, metadata,
                    created_at, updated_at, ended_at, bucket, object_key, takes_parts)
                SELECT lpad(i::text, 26, '0'), 'tus', 'key_1', 5, 0, true,
                    CASE WHEN i % 50 = 0 THEN 'open' ELSE 'completed' END, '{}', i, i, CASE WHEN i % 50 > 0 THEN i END,
                    CASE WHEN i % 20 = 0 THEN 'b' ELSE 'big' END, 'k' || i, i % 100 = 0
                FROM generate_series(1, 20000) AS numbers (i)
                """
            )
            try connection.run(
                """
                INSERT INTO media (id, size, metadata, created_at, bucket, object_key)
                SELECT id, 5, '{}', 1, bucket, object_key FROM upload WHERE state = 'completed'
                """
            )
            try connection.run("ANALYZE upload, media")
        }
        /// For these values, as a statement is planned at first, or for any, as it may be after many runs.
        func plan(_ sql: String, _ values: [(any Parameter)?], _ mode: String) async throws -> String {
            try await state.write { connection in
                try connection.execute("SET LOCAL plan_cache_mode = \(mode); PREPARE page AS \(sql)")
                let literals = values.map { "'\($0?.postgresText ?? "")'" }.joined(separator: ", ")
                let lines = try connection.rows("EXPLAIN EXECUTE page (\(literals))", isPlannedAnew: true)
                try connection.execute("DEALLOCATE page")
                return lines.compactMap { $0.text("QUERY PLAN") }.joined(separator: "\n")
            }
        }
        for (prefix, after) in [("", nil), ("", "x"), ("k1", nil), ("k1", "k15"), ("k19999", nil), ("none", nil)]
            as [(String, String?)]
        {
            for bucket in ["b", "big", "empty"] {
                let objects = PostgresState.statement(
                    of: ObjectQuery(bucket: bucket, prefix: prefix, after: after, limit: 5)
                )
                let uploads = PostgresState.statement(
                    of: PartUploadQuery(
                        bucket: bucket,
                        prefix: prefix,
                        after: after,
                        afterID: after.map { _ in UploadID.generate(at: start) },
                        limit: 5
                    )
                )
                for mode in ["force_custom_plan", "force_generic_plan"] {
                    for (statement, index) in [(objects, "media_by_name"), (uploads, "upload_open_by_name")] {
                        let plan = try await plan(statement.sql, statement.values, mode)
                        let condition = plan.split(separator: "\n").first { $0.contains("Index Cond") } ?? ""
                        #expect(plan.contains("Index Scan using \(index) "), "\(plan)")
                        #expect(condition.contains("(bucket =") && condition.contains(" >"), "\(plan)")
                        #expect(condition.contains("< ") == !prefix.isEmpty, "\(plan)")
                        #expect(!plan.contains("Sort") && !plan.contains("Seq Scan"), "\(plan)")
                    }
                }
            }
        }
    }

    @Test("records of the previous version read as before, and can be changed beside objects")
    func versionBefore() async throws {
        let database = try Database()
        let connection = try database.connection()
        try Schema.migrate(connection, Schema.migrations.filter { $0.number <= 4 })
        // Two with the same key, for which no condition was set.
        let ids = (0..<3).map { UploadID.generate(at: start.addingTimeInterval(TimeInterval($0))) }
        for (index, id) in ids.enumerated() {
            let isOpen = index == 2
            try connection.run(
                """
                INSERT INTO upload (id, dialect, subject, principal, length, reserved_bytes, completes_when_full, state, metadata,
                    created_at, updated_at, ended_at, object_key)
                VALUES ($1, 'tus', 'alice', 'key_1', 5, 0, true, $2, '{}', 0, 0, $3, 'k')
                """,
                [id.text, isOpen ? "open" : "completed", isOpen ? nil : 0]
            )
            if isOpen { continue }
            try connection.run(
                """
                INSERT INTO media (id, subject, size, metadata, created_at, object_key)
                VALUES ($1, 'alice', 5, '{}', 0, 'k')
                """,
                [id.text]
            )
        }
        try connection.run(
            """
            INSERT INTO event (sequence, id, kind, upload_id, subject, occurred_at, content)
            VALUES (1, 'e', 'created', $1, 'alice', 0, $2)
            """,
            [
                ids[2].text,
                #"{"createdAt":0,"dialect":"tus","key":"k","metadata":{},"offset":0,"principal":"key_1","state":"open","updatedAt":0}"#,
            ]
        )
        try connection.run("UPDATE event_counter SET last = 1")
        let files = "SELECT pg_relation_filenode('upload') || ' ' || pg_relation_filenode('media') AS files"
        let before = try connection.row(files)?.text("files")

        let upload = upload(9)
        let state = try await open(database, [upload])
        defer { state.close() }
        // However large the tables are.
        #expect(try connection.row(files)?.text("files") == before)
        for id in ids {
            let found = try #require(try await state.upload(id))
            #expect(found.key == "k" && found.bucket == nil && found.attributes == nil && !found.takesParts)
        }
        for id in ids.prefix(2) {
            let media = try #require(try await state.media(id))
            #expect(media.key == "k" && media.bucket == nil && media.attributes == nil)
        }
        let eventUpload = try #require(try await state.events(EventQuery(after: 0)).first).upload
        #expect(
            eventUpload.id == ids[2] && eventUpload.key == "k" && eventUpload.bucket == nil
                && eventUpload.attributes == nil
                && !eventUpload.takesParts
        )
        for upload in [upload, try #require(try await state.upload(ids[2]))] {
            let done = completed(upload)
            #expect(try await state.complete(done, as: Media(of: done)))
        }
        #expect(try await state.object(name)?.id == upload.id)
        // A node of the previous version continues: its statements do not know the new columns.
        try connection.run(
            """
            INSERT INTO upload (id, dialect, principal, reserved_bytes, completes_when_full, state, metadata, created_at,
                updated_at)
            VALUES ($1, 'tus', 'key_1', 0, true, 'open', '{}', 0, 0)
            """,
            [UploadID.generate(at: start).text]
        )
    }

    @Test(
        "keys are ordered by their bytes also where the database orders texts as people do",
        arguments: StateStoreContract.all.filter { $0.description.contains(" are listed ") }
    )
    func collation(_ contract: Contract<any StateStore>) async throws {
        let database = try Database()
        let state = try await database.open()
        defer { state.close() }
        let connection = try database.connection()
        for table in ["media", "upload"] {
            try connection.execute(#"ALTER TABLE \#(table) ALTER COLUMN object_key TYPE text COLLATE "und-x-icu""#)
        }
        try await contract.check(state)
        // Confirms that this collation sorts differently.
        let row = try connection.row("SELECT bool_or('a' COLLATE \"und-x-icu\" < 'B') AS is_other FROM pg_class")
        #expect(row?.flag("is_other") == true)
    }
}

extension PartRecord {
    fileprivate func numbered(_ number: Int) -> PartRecord {
        var part = self
        part.number = number
        return part
    }
}
