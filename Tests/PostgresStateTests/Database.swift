import Foundation
import StateRecords
import Synchronization
import Testing

@testable import PostgresState

/// A schema, and ways to open states in it.
struct Database {
    let server: PostgresServer
    let schema: String

    init(_ server: PostgresServer? = nil) throws {
        self.server = try server ?? PostgresServer.shared.get()
        schema = try self.server.makeSchema()
    }

    func settings(connections: Int = 3, options: [String] = [], name: String = "tests") -> PostgresSettings {
        PostgresSettings(url: server.url(schema: schema, options: options, name: name), connections: connections)
    }

    func open(connections: Int = 3, options: [String] = []) async throws -> PostgresState {
        try await PostgresState.open(settings(connections: connections, options: options))
    }

    /// Number of connections named after the schema that wait for a lock.
    func waiting(_ connection: Connection) throws -> Int64? {
        try connection.row(
            "SELECT count(*) AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = $1",
            [schema]
        )?.integer("n")
    }
}

extension Database {
    /// A connection to the schema, in addition to those of a state.
    func connection() throws -> Connection { try Connection(to: Target(settings())) }

    /// Number of connections that wait for a lock on a row of the schema.
    func waitingForLocks() throws -> Int64? {
        try connection().row(
            """
            SELECT count(*) AS n FROM pg_locks WHERE NOT granted
            AND pid IN (SELECT pid FROM pg_locks WHERE relation = 'upload_lease'::regclass)
            """
        )?.integer("n")
    }

    /// Runs `first` in its own transaction, which stays open until `second` waits for it.
    func interleave(
        _ first: (Connection) throws -> Void,
        meanwhile check: () async throws -> Void = {},
        _ second: @escaping @Sendable (PostgresState) async throws -> Void
    ) async throws {
        var settings = settings(connections: 1, name: schema)
        // Long enough for a slow machine.
        settings.lockTimeout = .seconds(600)
        settings.statementTimeout = .seconds(600)
        let waiting = try await PostgresState.open(settings)
        defer { waiting.close() }
        let holder = try Connection(to: Target(settings))
        let admin = try server.connection()
        try holder.begin()
        try first(holder)
        try holder.flush()
        let isOver = Mutex(false)
        async let other: Void = {
            defer { isOver.withLock { $0 = true } }
            try await second(waiting)
        }()
        var looks = 0
        while try !isOver.withLock({ $0 }) && self.waiting(admin) != 1, looks < 10_000 {
            looks += 1
            try await Task.sleep(for: .milliseconds(5))
        }
        #expect(looks < 10_000, "it neither waited nor ended")
        #expect(!isOver.withLock { $0 }, "it did not wait")
        try await check()
        try holder.commit()
        try await other
    }
}
