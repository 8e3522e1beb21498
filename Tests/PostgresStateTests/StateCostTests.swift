import Foundation
import SluiceTesting
import StateRecords
import SystemIO
import Testing
import UploadModel

@testable import PostgresState

@Suite(
    "Costs of PostgreSQL state",
    .enabled(if: PostgresServer.isAvailable, "\(PostgresServer.missing)"),
    .timeLimit(.minutes(10))
)
struct StateCostTests {
    /// Counters of the server; they do not depend on the machine or its load.
    private struct Cost {
        /// Rows and index entries that a call read or changed.
        var rows: Int64
        /// Pages of tables that were requested.
        var pages: Int64
        /// Pages of indexes that were requested.
        var indexPages: Int64
        /// Index searches, except those for added rows.
        var searches: Int64

        static func - (left: Cost, right: Cost) -> Cost {
            Cost(
                rows: left.rows - right.rows,
                pages: left.pages - right.pages,
                indexPages: left.indexPages - right.indexPages,
                searches: left.searches - right.searches
            )
        }
    }

    /// - Parameters:
    ///   - server: Used by this test only: removed rows are still read while another transaction might see them.
    ///   - rows: Number of uploads.
    ///   - options: Settings of the sessions.
    /// - Returns: Costs by call.
    /// - Throws: The errors of the state.
    private func costs(on server: PostgresServer, rows: Int, options: [String] = []) async throws -> [(
        name: String, cost: Cost
    )] {
        let schema = try server.makeSchema()
        let url = server.url(schema: schema, options: options)
        // A single connection, which reports its counters on request.
        let state = try await PostgresState.open(
            PostgresSettings(url: url, connections: 1, statementTimeout: .seconds(600))
        )
        defer { state.close() }
        // What runs beside the calls would be counted.
        state.leaveBacklog()
        state.node.close()
        let upload = Upload(
            id: .generate(at: Date()),
            dialect: "tus",
            subject: nil,
            principal: "key",
            length: 5,
            createdAt: Date()
        )
        let content = try StoredEvent.json(.sample(.created, of: upload)).text
        let admin = try Connection(to: Target(PostgresSettings(url: url, statementTimeout: .seconds(600))))
        let threads = BlockingPool(threads: 1, label: "test")
        try await threads.run {
            Result {
                // It would be counted.
                let tables = try admin.rows("SELECT tablename FROM pg_tables WHERE schemaname = $1", [schema])
                for table in tables.compactMap({ $0.text("tablename") }) {
                    try admin.execute("ALTER TABLE \(table) SET (autovacuum_enabled = off)")
                }
                for statement in StateCosts.filling(
                    rows: rows,
                    eventContent: content,
                    digest: "'\\x00112233445566778899aabbccddeeff'::bytea"
                ) {
                    try admin.execute(statement)
                }
                try admin.execute("UPDATE event_counter SET last = \(2 * rows)")
                try admin.execute("VACUUM (ANALYZE)")
            }
        }.get()
        // Count the cost of filling now, not later.
        _ = try admin.row("SELECT pg_stat_force_next_flush() IS NULL")
        // Without the table of nodes, which gets a heartbeat every two seconds.
        func count() async throws -> Cost {
            _ = try await state.read { try $0.row("SELECT pg_stat_force_next_flush() IS NULL") }
            let row = try admin.row(
                """
                SELECT (SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0) + n_tup_ins + n_tup_upd + n_tup_del)
                        FROM pg_stat_user_tables WHERE schemaname = $1 AND relname <> 'node')::bigint
                    + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE schemaname = $1 AND relname <> 'node')::bigint AS rows,
                    (SELECT sum(heap_blks_read + heap_blks_hit) FROM pg_statio_user_tables
                        WHERE schemaname = $1 AND relname <> 'node')::bigint AS pages,
                    (SELECT sum(idx_blks_read + idx_blks_hit) FROM pg_statio_user_indexes
                        WHERE schemaname = $1 AND relname <> 'node')::bigint AS index_pages,
                    (SELECT sum(idx_scan) FROM pg_stat_user_indexes WHERE schemaname = $1 AND relname <> 'node')::bigint AS searches
                """,
                [schema]
            )
            return Cost(
                rows: try #require(row?.integer("rows")),
                pages: try #require(row?.integer("pages")),
                indexPages: try #require(row?.integer("index_pages")),
                searches: try #require(row?.integer("searches"))
            )
        }
        var costs: [(String, Cost)] = []
        try await StateCosts.run(on: state, rows: rows) { name, call in
            let before = try await count()
            try await call()
            costs.append((name, try await count() - before))
        }
        try admin.execute("DROP SCHEMA \(schema) CASCADE")
        return costs
    }

    @Test("the cost of a call depends only on the depth of indexes, not on the number of uploads")
    func costs() async throws {
        let rows = ProcessInfo.processInfo.environment["SLUICE_STATE_ROWS"].flatMap { Int($0) } ?? 100_000
        // Without `enable_seqscan=off`, the server would scan a table of a hundred rows as a whole.
        let server = try PostgresServer()
        let few = try await costs(on: server, rows: 100, options: ["enable_seqscan=off"])
        let many = try await costs(on: server, rows: rows)
        var lines = ["PostgreSQL, rows, pages of tables, pages of indexes, 100 and \(rows) uploads:"]
        for ((name, few), (_, many)) in zip(few, many) {
            let story =
                "\(name): \(few.rows) \(many.rows), \(few.pages) \(many.pages), \(few.indexPages) \(many.indexPages)"
            lines.append(story)
            // A search costs something even if it finds nothing.
            #expect(few.rows > 0 || few.searches > 0, "\(name)")
            #expect(Double(many.rows) <= 1.5 * Double(few.rows), "\(story)")
            // If there are few rows, each is on another page.
            #expect(Double(many.pages) <= max(1.5 * Double(few.pages) + 1, Double(many.rows)), "\(story)")
            // A tree of a hundred entries is one page, which several searches in a row read once; a tree of a million
            // has three or four levels.
            #expect(many.indexPages <= 4 * max(few.indexPages, many.searches), "\(story)")
        }
        if rows != 100_000 { print(lines.joined(separator: "\n")) }
    }
}
