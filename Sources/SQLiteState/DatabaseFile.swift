internal import Foundation
internal import GRDB
internal import StateRecords

#if canImport(Glibc)
internal import Glibc
#endif

/// Opens the database file and migrates its schema.
enum DatabaseFile {
    /// Creates a missing file, readable for this user only; SQLite gives its companion files the same mode.
    static func secure(_ path: String) throws(SQLiteStateError) {
        let descriptor = Glibc.open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw SQLiteStateError(path: path, reason: String(cString: strerror(errno))) }
        defer { _ = Glibc.close(descriptor) }
        guard fchmod(descriptor, 0o600) == 0 else {
            throw SQLiteStateError(path: path, reason: String(cString: strerror(errno)))
        }
    }

    static func open(_ path: String, isSynchronous: Bool, busyTimeout: Duration) throws -> DatabasePool {
        // If two processes open a new file at the same time, both try to create the schema, and the second finds that
        // it exists. This can happen at each migration.
        let attempts = migrator.migrations.count + 2
        var attempt = 1
        while true {
            do {
                let pool = try DatabasePool(path: path, configuration: configuration(busyTimeout))
                // Not in `prepareDatabase`, because opening in WAL mode sets it to NORMAL.
                let level = isSynchronous ? "FULL" : "NORMAL"
                try pool.writeWithoutTransaction { try $0.execute(sql: "PRAGMA synchronous = \(level)") }
                if try pool.read(migrator.hasBeenSuperseded) {
                    throw SQLiteStateError(path: path, reason: "it was created by a newer version of Sluice.")
                }
                try migrator.migrate(pool)
                return pool
            } catch let error as DatabaseError where attempt < attempts && error.resultCode != .SQLITE_NOTADB {
                attempt += 1
            }
        }
    }

    static func libraryVersion() throws -> String {
        try DatabaseQueue().read { try String.fetchOne($0, sql: "SELECT sqlite_version()") } ?? ""
    }

    /// How the tables of an existing file compare with those of this version; reads only, beside a gateway too.
    static func age(_ path: String) throws -> SchemaAge {
        var configuration = configuration(.seconds(5))
        configuration.readonly = true
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        return try queue.read { database in
            if try migrator.hasBeenSuperseded(database) { return .newer }
            if try migrator.hasCompletedMigrations(database) { return .current }
            return try migrator.appliedIdentifiers(database).isEmpty ? .missing : .older
        }
    }

    private static func configuration(_ busyTimeout: Duration) -> Configuration {
        var configuration = Configuration()
        configuration.label = "state"
        configuration.busyMode = .timeout(busyTimeout / .seconds(1))
        configuration.foreignKeysEnabled = true
        configuration.maximumReaderCount = 4
        return configuration
    }
}
