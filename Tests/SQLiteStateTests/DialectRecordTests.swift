import Foundation
import GRDB
import SluiceTesting
import StateRecords
import Synchronization
import SystemIO
import Testing
import UploadModel

@testable import SQLiteState

@Suite("Records of dialects in SQLite state", .timeLimit(.minutes(10)))
struct DialectRecordTests {
    private let start = Date(timeIntervalSince1970: 1_750_000_000)

    private func open(_ path: String) throws -> SQLiteState {
        try SQLiteState(path: path, pool: BlockingPool(threads: 2, label: "test-state"))
    }

    private func record(_ key: String, text: String = "{}", expiresIn seconds: TimeInterval? = 60) -> DialectRecord {
        DialectRecord(
            kind: "test session",
            key: key,
            text: text,
            createdAt: start,
            expiresAt: seconds.map(start.addingTimeInterval)
        )
    }

    private func fill(_ state: SQLiteState, _ count: Int) async throws {
        try await state.write { database in
            try database.execute(
                sql: """
                    INSERT INTO dialect_record (kind, key, text, version, created_at, expires_at)
                    WITH RECURSIVE number (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM number WHERE i < ?)
                    SELECT 'kind' || (i % 3), 'k' || i, '{}', 1, 0, iif(i % 10 = 0, NULL, i) FROM number
                    """,
                arguments: [count]
            )
        }
    }

    private func plan(_ state: SQLiteState, _ sql: String, _ arguments: SQLiteArguments) async throws -> [String] {
        try await state.read { database in
            try Row.fetchAll(database, sql: "EXPLAIN QUERY PLAN " + sql, arguments: arguments.bound).map {
                $0["detail"]
            }
        }
    }

    @Test("lists and forgetting read ranges of an index, with and without statistics")
    func plans() async throws {
        let directory = try TemporaryDirectory()
        let state = try open(directory.path("state.sqlite"))
        try await fill(state, 5_000)
        for isAnalysed in [false, true] {
            if isAnalysed { try await state.write { try $0.execute(sql: "ANALYZE") } }
            for (prefix, after) in [("", nil), ("", "x"), ("k1", nil), ("k1", "k15"), ("none", nil)]
                as [(String, String?)]
            {
                let (sql, arguments) = SQLiteState.statement(
                    ofRecords: "kind1",
                    KeyRange(prefix: prefix, after: after),
                    5
                )
                let plan = try await plan(state, sql, arguments).joined(separator: "; ")
                let range = prefix.isEmpty ? "(kind=? AND key>?)" : "(kind=? AND key>? AND key<?)"
                #expect(plan == "SEARCH dialect_record USING PRIMARY KEY \(range)")
            }
            for (isDescending, after, range) in [
                (false, nil, "position>? AND position<?"), (true, nil, "position>? AND position<?"),
                (false, DialectPlace(3, "k"), "(position,key)>(?,?) AND position<?"),
                (true, DialectPlace(3, "k"), "position>? AND (position,key)<(?,?)"),
            ] as [(Bool, DialectPlace?, String)] {
                let query = DialectTermQuery(
                    "kind1",
                    "t",
                    positions: 1...5,
                    isDescending: isDescending,
                    after: after,
                    limit: 5
                )
                let counting = SQLiteState.statement(ofNumberOf: query)
                let steps = try await plan(state, counting.sql, counting.arguments)
                #expect(
                    steps.contains("SEARCH term USING PRIMARY KEY (kind=? AND term=? AND \(range))"),
                    "\(steps)"
                )
                let (sql, arguments) = SQLiteState.statement(of: query)
                #expect(
                    try await plan(state, sql, arguments) == [
                        "SEARCH term USING PRIMARY KEY (kind=? AND term=? AND \(range))",
                        "SEARCH record USING PRIMARY KEY (kind=? AND key=?)",
                    ]
                )
            }
            let next = SQLiteState.statement(ofTermsOf: "kind1", KeyRange(prefix: "t", after: "t1"))
            #expect(
                try await plan(state, next.sql, next.arguments)
                    == ["SEARCH dialect_term USING PRIMARY KEY (kind=? AND term>? AND term<?)"]
            )
            #expect(
                try await plan(state, SQLiteState.withoutTerms, ["kind1", "", 5])
                    == ["SEARCH dialect_record USING INDEX dialect_record_without_terms (kind=? AND key>?)"]
            )
            let changed = record("k1")
            let changes: [DialectChange] = [
                .replace(changed), .remove(kind: changed.kind, key: changed.key, version: 1),
                .removeIfPresent(kind: changed.kind, key: changed.key),
            ]
            for change in changes {
                let (sql, arguments) = SQLiteState.statement(of: change)
                var steps = ["SEARCH dialect_record USING PRIMARY KEY (kind=? AND key=?)"]
                if case .replace = change {
                } else {
                    // Its terms go with it.
                    steps.append("SEARCH dialect_term USING COVERING INDEX dialect_term_by_record (kind=? AND key=?)")
                }
                #expect(try await plan(state, sql, arguments) == steps)
            }
            let steps = try await plan(state, SQLiteState.forgetRecords, [Milliseconds(start), 1000])
            #expect(steps.contains("SEARCH dialect_record USING PRIMARY KEY (kind=? AND key=?)"), "\(steps)")
            #expect(
                steps.contains {
                    $0.hasPrefix("SEARCH dialect_record USING") && $0.hasSuffix("(expires_at>? AND expires_at<?)")
                },
                "\(steps)"
            )
            #expect(!steps.contains { $0.contains("SCAN") || $0.contains("TEMP B-TREE") }, "\(steps)")
        }
    }

    /// The number of changes after each commit.
    private final class Commits: TransactionObserver, Sendable {
        let changes = Mutex<[Int]>([])

        func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { false }
        func databaseDidChange(with event: DatabaseEvent) {}
        func databaseDidRollback(_ database: Database) {}
        func databaseDidCommit(_ database: Database) {
            let count = database.totalChangesCount
            changes.withLock { $0.append(count) }
        }
    }

    @Test("each transaction that forgets changes at most a thousand rows")
    func steps() async throws {
        let directory = try TemporaryDirectory()
        let state = try open(directory.path("state.sqlite"))
        try await fill(state, 2_500)
        let commits = Commits()
        try await state.write { $0.add(transactionObserver: commits) }
        try await state.forgetRecords(expiredBefore: start)
        let totals = commits.changes.withLock { $0 }
        #expect(zip(totals, totals.dropFirst()).map { $1 - $0 } == [1000, 1000, 250])
        #expect(try await state.records("kind0", prefix: "", after: nil, limit: 1_000).count == 83)
        state.close()
    }

    @Test("records survive closing and opening again")
    func reopen() async throws {
        let directory = try TemporaryDirectory()
        var state = try open(directory.path("state.sqlite"))
        #expect(try await state.insert(record("a"), at: start))
        #expect(try await state.replace(record("a", text: "2", expiresIn: nil)))
        state.close()
        state = try open(directory.path("state.sqlite"))
        var expected = record("a", text: "2", expiresIn: nil)
        expected.version = 2
        #expect(try await state.record("test session", "a") == expected)
        state.close()
    }

    @Test("of two processes with one file one inserts, and one replaces")
    func processes() async throws {
        let directory = try TemporaryDirectory()
        let states = [try open(directory.path("state.sqlite")), try open(directory.path("state.sqlite"))]
        for round in 0..<5 {
            let key = "\(round)"
            async let first = states[0].insert(record(key), at: start)
            async let second = states[1].insert(record(key), at: start)
            #expect(try await [first, second].count { $0 } == 1)
            async let third = states[0].replace(record(key, text: "3"))
            async let fourth = states[1].replace(record(key, text: "4"))
            #expect(try await [third, fourth].count { $0 } == 1)
            #expect(try await states[0].record("test session", key)?.version == 2)
        }
        states.forEach { $0.close() }
    }

    @Test("changes of which one fails in the database leave no trace, and those of others are made")
    func failure() async throws {
        let directory = try TemporaryDirectory()
        let state = try open(directory.path("state.sqlite"))
        #expect(try await state.insert(record("a"), at: start))
        try await state.write { database in
            try database.execute(
                sql: """
                    CREATE TRIGGER refuse BEFORE INSERT ON dialect_record WHEN new.key = 'x'
                    BEGIN SELECT raise(ABORT, 'refused'); END
                    """
            )
        }
        let (good, bad, start) = (record("b"), record("x"), start)
        let changed = record("a", text: "2")
        // Of calls at once several share one transaction.
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<20 {
                group.addTask {
                    let other = self.record("c\(number)")
                    #expect(await (try? state.apply([.insert(other, at: start)])) == true)
                }
                group.addTask {
                    let code = await errorCode { () async throws(UploadError) in
                        try await state.apply([.insert(good, at: start), .replace(changed), .insert(bad, at: start)])
                    }
                    #expect(code == .storageFailure)
                }
                group.addTask {
                    let changes: [DialectChange] = [
                        .insert(good, at: start), .remove(kind: changed.kind, key: "missing", version: nil),
                    ]
                    #expect(await (try? state.apply(changes)) == false)
                }
            }
        }
        #expect(try await state.record("test session", "a") == record("a"))
        let keys = try await state.records("test session", prefix: "", after: nil, limit: 100).map(\.key)
        #expect(Set(keys) == Set(["a"] + (0..<20).map { "c\($0)" }))
        state.close()
    }

    @Test("what an earlier version writes is listed until its terms are written")
    func withoutTerms() async throws {
        let directory = try TemporaryDirectory()
        let state = try open(directory.path("state.sqlite"))
        var known = record("a")
        known.terms = [DialectTerm("t", at: 1)]
        for key in ["a", "b"] {
            let new = DialectRecord(kind: known.kind, key: key, text: "{}", createdAt: start)
            #expect(try await state.insert(new, at: start))
        }
        #expect(try await state.recordsWithoutTerms(known.kind, after: nil, limit: 9).isEmpty)
        try await state.write { database in
            try database.execute(
                sql: """
                    UPDATE dialect_record SET text = 'theirs', version = version + 1 WHERE key = 'a';
                    INSERT INTO dialect_record (kind, key, text, version, created_at)
                        VALUES ('test session', 'c', 'theirs', 1, 0)
                    """
            )
        }
        func outdated(after key: String? = nil) async throws -> [String] {
            try await state.recordsWithoutTerms(known.kind, after: key, limit: 9).map(\.key)
        }
        #expect(try await outdated() == ["a", "c"])
        #expect(try await outdated(after: "a") == ["c"])
        #expect(try await state.recordsWithoutTerms("test", after: nil, limit: 9).isEmpty)
        known.version = 2
        #expect(try await state.replace(known))
        #expect(try await outdated() == ["c"])
        let found = try await state.records(DialectTermQuery(known.kind, "t", limit: 9))
        #expect(found.map(\.record.key) == ["a"])
        state.close()
    }

    @Test("records of a database of the version before have no terms yet")
    func beforeTerms() async throws {
        let directory = try TemporaryDirectory()
        let path = directory.path("state.sqlite")
        let old = try DatabaseQueue(path: path)
        try DatabaseFile.migrator.migrate(old, upTo: "0013 rotation and last use of API keys")
        try await old.write { database in
            try database.execute(
                sql: """
                    INSERT INTO dialect_record (kind, key, text, version, created_at) VALUES ('test session', 'a', '{}', 3, 0)
                    """
            )
        }
        try old.close()
        let state = try open(path)
        let found = try await state.recordsWithoutTerms("test session", after: nil, limit: 9)
        #expect(found.map(\.version) == [3])
        #expect(try await state.replace(found[0]))
        #expect(try await state.recordsWithoutTerms("test session", after: nil, limit: 9).isEmpty)
        state.close()
    }

    @Test("a database of the version before gets the table")
    func versionBefore() async throws {
        let directory = try TemporaryDirectory()
        let path = directory.path("state.sqlite")
        let old = try DatabaseQueue(path: path)
        try DatabaseFile.migrator.migrate(old, upTo: "0011 events that nothing wants are left out")
        try old.close()
        let state = try open(path)
        #expect(try await state.insert(record("a"), at: start))
        #expect(try await state.record("test session", "a") == record("a"))
        state.close()
    }
}
