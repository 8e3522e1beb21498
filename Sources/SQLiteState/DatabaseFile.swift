internal import Foundation
internal import GRDB

#if canImport(Glibc)
internal import Glibc
#endif

/// Opening the database file and its schema.
enum DatabaseFile {
    /// Makes the file if it is missing, readable for this user only; SQLite gives its companions the same mode.
    static func secure(_ path: String) throws(SQLiteStateError) {
        let descriptor = Glibc.open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw SQLiteStateError(path: path, reason: String(cString: strerror(errno))) }
        defer { _ = Glibc.close(descriptor) }
        guard fchmod(descriptor, 0o600) == 0 else {
            throw SQLiteStateError(path: path, reason: String(cString: strerror(errno)))
        }
    }

    static func open(_ path: String, isSynchronous: Bool, busyTimeout: Duration) throws -> DatabasePool {
        // Two processes that find a new file at the same time both try to make the schema; the second one then finds it made.
        var attempt = 1
        while true {
            do {
                let pool = try DatabasePool(path: path, configuration: configuration(busyTimeout))
                // Not in `prepareDatabase`: opening in WAL mode sets it to NORMAL.
                let level = isSynchronous ? "FULL" : "NORMAL"
                try pool.writeWithoutTransaction { try $0.execute(sql: "PRAGMA synchronous = \(level)") }
                if try pool.read(migrator.hasBeenSuperseded) {
                    throw SQLiteStateError(path: path, reason: "it was made by a newer version of Sluice.")
                }
                try migrator.migrate(pool)
                return pool
            } catch let error as DatabaseError where attempt < 3 && error.resultCode != .SQLITE_NOTADB {
                attempt += 1
            }
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

    /// Migrations are never changed once they are released; a change of the schema is a further one.
    ///
    /// Times are Unix milliseconds. Ids of uploads sort by creation time, so the primary key is the order of lists.
    static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("0001 uploads, media, used grants, API keys") { database in
            try database.execute(
                sql: """
                    CREATE TABLE upload (
                        id TEXT NOT NULL PRIMARY KEY,
                        dialect TEXT NOT NULL,
                        subject TEXT,
                        principal TEXT NOT NULL,
                        length INTEGER CHECK (length >= 0),
                        state TEXT NOT NULL CHECK (state IN ('open', 'completed', 'terminated', 'expired')),
                        metadata_raw TEXT,
                        metadata TEXT NOT NULL,
                        created_at INTEGER NOT NULL,
                        updated_at INTEGER NOT NULL,
                        expires_at INTEGER,
                        ended_at INTEGER,
                        CHECK ((state = 'open') = (ended_at IS NULL)),
                        CHECK (state <> 'completed' OR length IS NOT NULL)
                    ) STRICT, WITHOUT ROWID;
                    CREATE INDEX upload_by_state ON upload (state, id);
                    CREATE INDEX upload_by_subject ON upload (subject, id) WHERE subject IS NOT NULL;
                    CREATE INDEX upload_open_by_expiry ON upload (expires_at)
                        WHERE state = 'open' AND expires_at IS NOT NULL;
                    CREATE INDEX upload_ended ON upload (ended_at) WHERE state IN ('terminated', 'expired');

                    CREATE TABLE media (
                        id TEXT NOT NULL PRIMARY KEY REFERENCES upload (id) ON DELETE CASCADE,
                        subject TEXT,
                        size INTEGER NOT NULL CHECK (size >= 0),
                        content_type TEXT,
                        filename TEXT,
                        metadata TEXT NOT NULL,
                        created_at INTEGER NOT NULL
                    ) STRICT, WITHOUT ROWID;

                    CREATE TABLE used_grant (
                        id TEXT NOT NULL PRIMARY KEY,
                        upload_id TEXT NOT NULL,
                        expires_at INTEGER NOT NULL
                    ) STRICT, WITHOUT ROWID;
                    CREATE INDEX used_grant_by_expiry ON used_grant (expires_at);

                    CREATE TABLE api_key (
                        id TEXT NOT NULL PRIMARY KEY,
                        name TEXT NOT NULL,
                        scopes TEXT NOT NULL,
                        created_at INTEGER NOT NULL,
                        expires_at INTEGER,
                        revoked_at INTEGER,
                        digest BLOB NOT NULL UNIQUE,
                        is_preset INTEGER NOT NULL CHECK (is_preset IN (0, 1))
                    ) STRICT, WITHOUT ROWID;
                    """
            )
        }
        migrator.registerMigration("0002 lengths that are told later, concatenations") { database in
            try database.execute(
                sql: """
                    ALTER TABLE upload ADD COLUMN maximum_bytes INTEGER CHECK (maximum_bytes >= 0);
                    ALTER TABLE upload ADD COLUMN completes_when_full INTEGER NOT NULL DEFAULT 1
                        CHECK (completes_when_full IN (0, 1));
                    -- The field as it was sent, and of a final upload its parts as a list of ids.
                    ALTER TABLE upload ADD COLUMN concatenation_raw TEXT;
                    ALTER TABLE upload ADD COLUMN concatenation_parts TEXT
                        CHECK (concatenation_parts IS NULL OR concatenation_raw IS NOT NULL);

                    -- Only while the final upload is open.
                    CREATE TABLE awaited_part (
                        part_id TEXT NOT NULL,
                        final_id TEXT NOT NULL REFERENCES upload (id) ON DELETE CASCADE,
                        PRIMARY KEY (part_id, final_id)
                    ) STRICT, WITHOUT ROWID;
                    CREATE INDEX awaited_part_by_final ON awaited_part (final_id);

                    -- Completed partial uploads expire, too.
                    DROP INDEX upload_open_by_expiry;
                    CREATE INDEX upload_by_expiry ON upload (expires_at) WHERE expires_at IS NOT NULL;
                    """
            )
        }
        return migrator
    }
}
