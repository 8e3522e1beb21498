import Foundation
import SluiceTesting
import StateRecords
import Testing
import UploadModel

@testable import PostgresState

@Suite(
    "Records of dialects in PostgreSQL state",
    .enabled(if: PostgresServer.isAvailable, "\(PostgresServer.missing)"),
    .timeLimit(.minutes(10))
)
struct DialectRecordTests {
    private let start = Date(timeIntervalSince1970: 1_750_000_000)

    private func record(_ key: String, text: String = "{}", expiresIn seconds: TimeInterval? = 60) -> DialectRecord {
        DialectRecord(
            kind: "test session",
            key: key,
            text: text,
            createdAt: start,
            expiresAt: seconds.map(start.addingTimeInterval)
        )
    }

    /// Runs `call` for each number at the same time; returns how often it was true.
    private func count(_ number: Int, _ call: @escaping @Sendable (Int) async throws -> Bool) async throws -> Int {
        try await withThrowingTaskGroup(of: Bool.self) { group in
            for index in 0..<number { group.addTask { try await call(index) } }
            return try await group.reduce(into: 0) { if $1 { $0 += 1 } }
        }
    }

    private func fill(_ state: PostgresState, _ count: Int) async throws {
        try await state.write { connection in
            try connection.run(
                """
                INSERT INTO dialect_record (kind, key, text, version, created_at, expires_at, terms_version)
                SELECT CASE WHEN i % 20 = 0 THEN 'few' ELSE 'many' END, 'k' || i, '{}', 1, 0,
                    CASE WHEN i % 10 > 0 THEN i END, 1
                FROM generate_series(1, $1::bigint) AS numbers (i)
                """,
                [count]
            )
            try connection.run(
                """
                INSERT INTO dialect_term (kind, term, position, key)
                SELECT kind, CASE WHEN expires_at % 2 = 0 THEN 'u' ELSE 't' END, coalesce(expires_at, 0), key
                FROM dialect_record
                """
            )
            try connection.run("ANALYZE dialect_record, dialect_term")
        }
    }

    @Test("of 50 concurrent insertions on three nodes one is admitted, and of as many replacements")
    func nodes() async throws {
        let database = try Database()
        let nodes = [try await database.open(), try await database.open(), try await database.open()]
        defer { nodes.forEach { $0.close() } }
        for now in [start, start.addingTimeInterval(60)] {
            let admitted = try await count(50) { number in
                var new = record("a", text: "\(number)")
                new.expiresAt = now.addingTimeInterval(60)
                return try await nodes[number % 3].insert(new, at: now)
            }
            #expect(admitted == 1)
            let replaced = try await count(50) { number in
                try await nodes[number % 3].replace(record("a", text: "\(number)", expiresIn: 60))
            }
            #expect(replaced == 1)
            #expect(try await nodes[0].record("test session", "a")?.version == 2)
        }
    }

    @Test("an insertion waits for one of another node, which may be rolled back")
    func insertedMeanwhile() async throws {
        let database = try Database()
        let state = try await database.open()
        defer { state.close() }
        let insertion = """
            INSERT INTO dialect_record VALUES ('test session', 'a', 'theirs', 1, 0, NULL)
            """
        try await database.interleave { connection in
            try connection.run(insertion)
        } _: { other in
            let isInserted = try await other.insert(record("a"), at: start)
            #expect(!isInserted)
        }
        #expect(try await state.record("test session", "a")?.text == "theirs")
        try await database.interleave { connection in
            try connection.run("DELETE FROM dialect_record")
        } _: { other in
            let isReplaced = try await other.replace(record("a", text: "changed"))
            #expect(!isReplaced)
        }
        #expect(try await state.record("test session", "a") == nil)
    }

    @Test("of 50 that change two records at once on three nodes one is admitted, and nothing of the others is left")
    func changesOnNodes() async throws {
        let database = try Database()
        let nodes = [try await database.open(), try await database.open(), try await database.open()]
        defer { nodes.forEach { $0.close() } }
        for key in ["a", "b"] { #expect(try await nodes[0].insert(record(key), at: start)) }
        let admitted = try await count(50) { number in
            var changes: [DialectChange] = [
                .replace(record("a", text: "\(number)")), .replace(record("b", text: "\(number)")),
                .insertIfAbsent(record("event \(number)"), at: start),
            ]
            if number % 2 == 0 { changes.reverse() }
            return try await nodes[number % 3].apply(changes)
        }
        #expect(admitted == 1)
        let stored = try await nodes[0].records("test session", prefix: "", after: nil, limit: 100)
        #expect(stored.map(\.version) == [2, 2, 1])
        #expect(stored.count == 3 && stored[0].text == stored[1].text && stored[2].key == "event \(stored[0].text)")
    }

    @Test("changes wait for a transaction of another node, and are refused by what it left")
    func changedMeanwhile() async throws {
        let database = try Database()
        let state = try await database.open()
        defer { state.close() }
        for key in ["a", "b"] { #expect(try await state.insert(record(key), at: start)) }
        try await database.interleave { connection in
            try connection.run("UPDATE dialect_record SET text = 'theirs', version = 2 WHERE key = 'b'")
        } _: { other in
            let changes: [DialectChange] = [.replace(record("a", text: "ours")), .replace(record("b", text: "ours"))]
            let isApplied = try await other.apply(changes)
            #expect(!isApplied)
        }
        #expect(try await state.record("test session", "a") == record("a"))
        #expect(try await state.record("test session", "b")?.text == "theirs")
    }

    @Test("changes of which one fails in the database leave no trace")
    func failure() async throws {
        let state = try await Database().open()
        defer { state.close() }
        let long = record("z" + (0..<100).map { _ in UUID().uuidString }.joined())
        let changes: [DialectChange] = [.insert(record("a"), at: start), .insertIfAbsent(long, at: start)]
        let code = await errorCode { () async throws(UploadError) in try await state.apply(changes) }
        #expect(code == .invalidRequest)
        #expect(try await state.records("test session", prefix: "", after: nil, limit: 9).isEmpty)
        #expect(try await state.insert(record("a"), at: start))
    }

    @Test("lists and forgetting read ranges of an index, without sorting, however often they ran")
    func plans() async throws {
        let state = try await Database().open(connections: 1)
        defer { state.close() }
        try await fill(state, 20_000)
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
        let pages =
            [("", nil), ("", "x"), ("k1", nil), ("k1", "k15"), ("k19999", nil), ("none", nil)]
            as [(String, String?)]
        for mode in ["force_custom_plan", "force_generic_plan"] {
            for (prefix, after) in pages {
                for kind in ["few", "many", "none"] {
                    let keys = KeyRange(prefix: prefix, after: after)
                    let (sql, values) = PostgresState.statement(ofRecords: kind, keys, 5)
                    let plan = try await plan(sql, values, mode)
                    let condition = plan.split(separator: "\n").first { $0.contains("Index Cond") } ?? ""
                    #expect(plan.contains("Index Scan using dialect_record_pkey "), "\(plan)")
                    #expect(condition.contains("(kind =") && condition.contains("key >"), "\(plan)")
                    #expect(condition.contains("key <") == !prefix.isEmpty, "\(plan)")
                    #expect(!plan.contains("Sort") && !plan.contains("Seq Scan"), "\(plan)")
                }
            }
            for (isDescending, after) in [
                (false, nil), (true, nil), (false, DialectPlace(900, "k")), (true, DialectPlace(900, "k")),
            ] as [(Bool, DialectPlace?)] {
                let query = DialectTermQuery(
                    "many",
                    "t",
                    positions: 800...1_000,
                    isDescending: isDescending,
                    after: after,
                    limit: 5
                )
                let counting = PostgresState.statement(ofNumberOf: query)
                let counted = try await plan(counting.sql, counting.values, mode)
                #expect(counted.contains("using dialect_term_pkey on dialect_term"), "\(counted)")
                #expect(!counted.contains("Sort"), "\(counted)")
                let (sql, values) = PostgresState.statement(of: query)
                let plan = try await plan(sql, values, mode)
                #expect(plan.contains("using dialect_term_pkey on dialect_term"), "\(plan)")
                let condition = plan.split(separator: "\n").first { $0.contains("(term = ") } ?? ""
                #expect(condition.contains("Index Cond"), "\(plan)")
                #expect(condition.contains("\"position\" \(isDescending ? ">=" : "<=")"), "\(plan)")
                #expect(condition.contains("(ROW(\"position\", key) ") == (after != nil), "\(plan)")
                #expect(plan.contains("Index Scan using dialect_record_pkey on dialect_record"), "\(plan)")
                #expect(!plan.contains("Seq Scan"), "\(plan)")
            }
            let next = PostgresState.statement(ofTermsOf: "many", KeyRange(prefix: "t", after: "t1"))
            let term = try await plan(next.sql, next.values, mode)
            #expect(term.contains("using dialect_term_pkey on dialect_term"), "\(term)")
            #expect(!term.contains("Sort"), "\(term)")
            let outdated = try await plan(PostgresState.withoutTerms, ["few", "", 5], mode)
            #expect(outdated.contains("using dialect_record_without_terms on dialect_record"), "\(outdated)")
            for milliseconds in [0, 100, 1_000_000] as [Int64] {
                let values: [(any Parameter)?] = [milliseconds, RetentionStep.rows]
                let plan = try await plan(PostgresState.forgetRecords, values, mode)
                #expect(plan.contains("Tid Scan on dialect_record"), "\(plan)")
                #expect(plan.contains("Index Scan using dialect_record_by_expiry "), "\(plan)")
                #expect(!plan.contains("Sort") && !plan.contains("Seq Scan"), "\(plan)")
            }
        }
    }

    @Test("each transaction that forgets changes at most a thousand rows")
    func steps() async throws {
        let database = try Database()
        let state = try await database.open()
        defer { state.close() }
        try await fill(state, 2_500)
        try await state.write { connection in
            try connection.execute(
                """
                CREATE TABLE forgotten (id bigint);
                CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
                    'BEGIN INSERT INTO forgotten VALUES (txid_current()); RETURN OLD; END';
                CREATE TRIGGER note BEFORE DELETE ON dialect_record FOR EACH ROW EXECUTE FUNCTION note()
                """
            )
        }
        try await state.forgetRecords(expiredBefore: start)
        let counts = try database.connection().rows("SELECT count(*) AS n FROM forgotten GROUP BY id ORDER BY id")
        #expect(counts.map { $0.integer("n") } == [1000, 1000, 250])
        #expect(try await state.records("few", prefix: "", after: nil, limit: 1_000).count == 125)
    }

    @Test("nodes that forget concurrently do not disturb each other, and a renewed record stays")
    func forgetTogether() async throws {
        let database = try Database()
        let nodes = [try await database.open(), try await database.open()]
        defer { nodes.forEach { $0.close() } }
        try await fill(nodes[0], 5_000)
        let later = start.addingTimeInterval(100)
        #expect(try await nodes[0].insert(record("a", expiresIn: 1), at: start))
        let holder = try database.connection()
        try holder.begin()
        // Renewed by a node whose transaction is not over: the others neither wait for it nor remove it.
        try holder.run("UPDATE dialect_record SET expires_at = NULL WHERE key = 'a'")
        try await withThrowingTaskGroup(of: Void.self) { group in
            for node in nodes + nodes { group.addTask { try await node.forgetRecords(expiredBefore: later) } }
            try await group.waitForAll()
        }
        try holder.commit()
        try await nodes[1].forgetRecords(expiredBefore: later)
        let left = try holder.row("SELECT count(*) AS n FROM dialect_record WHERE expires_at IS NOT NULL")
        #expect(left?.integer("n") == 0)
        #expect(try await nodes[1].record("test session", "a") != nil)
    }

    @Test("a key that is too long for an index is refused as the client's mistake")
    func longKey() async throws {
        let state = try await Database().open()
        defer { state.close() }
        // Random, because repeated text is compressed.
        let long = record((0..<100).map { _ in UUID().uuidString }.joined())
        #expect(
            await errorCode { () async throws(UploadError) in try await state.insert(long, at: start) }
                == .invalidRequest
        )
        #expect(try await state.record(long.kind, long.key) == nil)
    }

    @Test("what an earlier version writes beside is listed until its terms are written")
    func withoutTerms() async throws {
        let database = try Database()
        let state = try await database.open()
        defer { state.close() }
        var known = record("a")
        known.terms = [DialectTerm("t", at: 1)]
        for key in ["a", "b"] { #expect(try await state.insert(record(key), at: start)) }
        #expect(try await state.recordsWithoutTerms(known.kind, after: nil, limit: 9).isEmpty)
        try database.connection().execute(
            """
            UPDATE dialect_record SET text = 'theirs', version = version + 1 WHERE key = 'a';
            INSERT INTO dialect_record (kind, key, text, version, created_at)
                VALUES ('test session', 'c', 'theirs', 1, 0)
            """
        )
        func outdated(after key: String? = nil) async throws -> [String] {
            try await state.recordsWithoutTerms(known.kind, after: key, limit: 9).map(\.key)
        }
        #expect(try await outdated() == ["a", "c"])
        #expect(try await outdated(after: "a") == ["c"])
        known.version = 2
        #expect(try await state.replace(known))
        #expect(try await outdated() == ["c"])
        #expect(try await state.records(DialectTermQuery(known.kind, "t", limit: 9)).map(\.record.key) == ["a"])
        // It removes records without knowing of their terms.
        try database.connection().execute("DELETE FROM dialect_record WHERE key = 'a'")
        #expect(try database.connection().row("SELECT count(*) AS n FROM dialect_term")?.integer("n") == 0)
    }

    @Test("records of a database of the version before have no terms yet")
    func beforeTerms() async throws {
        let database = try Database()
        let before = Schema.migrations.filter { $0.number < Schema.dialectTerms.number }
        try Schema.migrate(try database.connection(), before)
        try database.connection().execute(
            "INSERT INTO dialect_record (kind, key, text, version, created_at) VALUES ('test session', 'a', '{}', 3, 0)"
        )
        let state = try await database.open()
        defer { state.close() }
        let found = try await state.recordsWithoutTerms("test session", after: nil, limit: 9)
        #expect(found.map(\.version) == [3])
        #expect(try await state.replace(found[0]))
        #expect(try await state.recordsWithoutTerms("test session", after: nil, limit: 9).isEmpty)
    }

    @Test("a database of the version before gets the table")
    func versionBefore() async throws {
        let database = try Database()
        let before = Schema.migrations.filter { $0.number < Schema.dialectRecords.number }
        try Schema.migrate(try database.connection(), before)
        let state = try await database.open()
        defer { state.close() }
        #expect(try await state.insert(record("a"), at: start))
        #expect(try await state.record("test session", "a") == record("a"))
    }

    @Test("records that were copied from another database are found")
    func copied() async throws {
        let database = try Database()
        let copying = try await PostgresState.openForImport(database.settings())
        defer { copying.close() }
        let table = try #require(StoredTable.all.first { $0.name == "dialect_record" })
        guard case .open(var progress) = try await copying.beginImport(from: "one", anew: false) else {
            Issue.record("the copy was not begun")
            return
        }
        let texts = ["{}", #"{"a":"\u0000"}"#, "\u{FFFF}😀"]
        let rows: [[StoredField]] = texts.enumerated().map { number, text in
            [
                .text("test session"), .text("k\(number)"), .text(text), .integer(7), .integer(1_750_000_000_000),
                number == 0 ? .null : .integer(1_750_000_060_000), .integer(7),
            ]
        }
        for row in rows { progress = try await copying.importRows([row], into: table, after: progress) }
        #expect(progress.table(table)?.last == [.text("test session"), .text("k2")])
        #expect(try await copying.rows(of: table, after: nil, limit: 9) == rows)
        #expect(try await copying.rows(of: table, after: table.key(of: rows[0]), limit: 1) == [rows[1]])
        try await copying.finishImport(events: EventHistory(lastEvent: 0))
        let state = try await database.open()
        defer { state.close() }
        for (number, text) in texts.enumerated() {
            var expected = record("k\(number)", text: text, expiresIn: number == 0 ? nil : 60)
            expected.version = 7
            #expect(try await state.record("test session", expected.key) == expected)
            #expect(try await state.replace(expected))
        }
    }
}
