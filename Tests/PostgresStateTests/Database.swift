import Foundation

@testable import PostgresState

/// A schema, and how to open states in it.
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

    /// How many connections with the name of the schema wait for a lock.
    func waiting(_ connection: Connection) throws -> Int64? {
        try connection.row(
            "SELECT count(*) AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = $1",
            [schema]
        )?.integer("n")
    }
}

extension Database {
    /// A connection to the schema, beside those of a state.
    func connection() throws -> Connection { try Connection(to: Target(settings())) }

    /// How many connections wait for a lock on a row of the schema.
    func waitingForLocks() throws -> Int64? {
        try connection().row(
            """
            SELECT count(*) AS n FROM pg_locks WHERE NOT granted
            AND pid IN (SELECT pid FROM pg_locks WHERE relation = 'upload_lease'::regclass)
            """
        )?.integer("n")
    }
}
