internal import Foundation
internal import GRDB
internal import StateRecords
internal import SystemIO

#if canImport(Glibc)
internal import Glibc
#endif

/// Opens the database file and migrates its schema.
enum DatabaseFile {
    /// Creates a missing file, readable for this user only, and refuses a symbolic link; SQLite gives its companion files the
    /// same mode and owner, and follows no link there either.
    static func secure(_ path: String) throws(SystemError) {
        let io = BlockingIO.onCallingThread
        let file = try io.open(path, O_RDWR | O_CREAT | O_NOFOLLOW)
        guard fchmod(file.descriptor, 0o600) == 0 else { throw SystemError("fchmod", errno: errno) }
        guard io.copiesOnWrite(file) else { return }
        // SQLite uses empty ones. It maps the shared memory, so a change of it must not need blocks of a full disk.
        let owner = try io.status(of: file)
        if owner.size == 0 { io.overwriteInPlace(file) }
        for suffix in ["-wal", "-shm"] {
            // Only a new one: to close one that SQLite has open would drop its locks.
            guard let new = try? io.open(path + suffix, O_RDWR | O_CREAT | O_EXCL) else { continue }
            io.overwriteInPlace(new)
            if owner.owner != geteuid() { _ = fchown(new.descriptor, owner.owner, owner.group) }
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
                try pool.writeWithoutTransaction { database in
                    try database.execute(sql: "PRAGMA synchronous = \(level)")
                    // What a large deletion needs to undo a part of itself would be in a file, perhaps on the same full disk.
                    try database.execute(sql: "PRAGMA temp_store = MEMORY")
                }
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

    /// Whether a failure means that the file system has no room.
    ///
    /// SQLite has a code of its own for that, but not where it allocates its shared memory, nor for a quota of the user.
    static func isFull(_ error: any Error) -> Bool {
        if let error = error as? SystemError { return error.errno == ENOSPC || error.errno == EDQUOT }
        guard let error = error as? DatabaseError else { return false }
        switch error.extendedResultCode {
        case .SQLITE_IOERR_SHMSIZE, .SQLITE_IOERR_WRITE, .SQLITE_IOERR_TRUNCATE: return true
        default: return error.resultCode == .SQLITE_FULL
        }
    }

    /// The same while the file is opened: SQLite does not say why it could not make a file beside it.
    static func mayBeFull(_ error: any Error) -> Bool {
        isFull(error) || (error as? DatabaseError)?.resultCode == .SQLITE_CANTOPEN
    }

    /// Moves the log into the main file and gives back its space, unless somebody reads.
    static func shortenLog(_ database: Database) {
        do {
            let timeout = try Int.fetchOne(database, sql: "PRAGMA busy_timeout") ?? 0
            try database.execute(sql: "PRAGMA busy_timeout = 0")
            defer { try? database.execute(sql: "PRAGMA busy_timeout = \(timeout)") }
            try database.checkpoint(.truncate)
        } catch {
            // Later work does it.
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
