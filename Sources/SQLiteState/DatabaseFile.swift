internal import Foundation
internal import GRDB

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

    private static func configuration(_ busyTimeout: Duration) -> Configuration {
        var configuration = Configuration()
        configuration.label = "state"
        configuration.busyMode = .timeout(busyTimeout / .seconds(1))
        configuration.foreignKeysEnabled = true
        configuration.maximumReaderCount = 4
        return configuration
    }

    /// Released migrations are never changed; each change of the schema is a new migration.
    ///
    /// Times are Unix milliseconds. Ids of uploads sort by creation time, so lists follow the primary key.
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
        migrator.registerMigration("0003 accounts, events, names by the app") { database in
            try database.execute(
                sql: """
                    ALTER TABLE upload ADD COLUMN alias TEXT;
                    ALTER TABLE upload ADD COLUMN object_key TEXT;
                    ALTER TABLE upload ADD COLUMN issuer TEXT;
                    ALTER TABLE upload ADD COLUMN reserved_bytes INTEGER NOT NULL DEFAULT 0 CHECK (reserved_bytes >= 0);
                    ALTER TABLE media ADD COLUMN object_key TEXT;
                    CREATE UNIQUE INDEX upload_by_alias ON upload (alias) WHERE alias IS NOT NULL;
                    CREATE INDEX upload_by_issuer ON upload (issuer, id) WHERE issuer IS NOT NULL;

                    CREATE TABLE account (
                        kind TEXT NOT NULL CHECK (kind IN ('subject', 'key')),
                        name TEXT NOT NULL,
                        stored_bytes INTEGER NOT NULL DEFAULT 0 CHECK (stored_bytes >= 0),
                        reserved_bytes INTEGER NOT NULL DEFAULT 0 CHECK (reserved_bytes >= 0),
                        open_uploads INTEGER NOT NULL DEFAULT 0 CHECK (open_uploads >= 0),
                        period_start INTEGER NOT NULL,
                        period_bytes INTEGER NOT NULL DEFAULT 0 CHECK (period_bytes >= 0),
                        period_uploads INTEGER NOT NULL DEFAULT 0 CHECK (period_uploads >= 0),
                        policy TEXT,
                        PRIMARY KEY (kind, name)
                    ) STRICT, WITHOUT ROWID;

                    -- What is there already, as it would have been counted.
                    UPDATE upload SET issuer = principal WHERE principal GLOB 'key_*';
                    UPDATE upload SET reserved_bytes = length WHERE length IS NOT NULL AND concatenation_parts IS NULL
                        AND (state = 'open' OR (state = 'completed' AND concatenation_raw IS NOT NULL));
                    INSERT INTO account (kind, name, stored_bytes, reserved_bytes, open_uploads, period_start)
                        SELECT 'subject', subject, coalesce(sum(media.size), 0), sum(reserved_bytes),
                            sum(state = 'open'), 0
                        FROM upload LEFT JOIN media USING (id, subject)
                        WHERE subject IS NOT NULL AND state IN ('open', 'completed') GROUP BY subject;
                    INSERT INTO account (kind, name, stored_bytes, reserved_bytes, open_uploads, period_start)
                        SELECT 'key', issuer, coalesce(sum(media.size), 0), sum(reserved_bytes), sum(state = 'open'), 0
                        FROM upload LEFT JOIN media USING (id)
                        WHERE issuer IS NOT NULL AND state IN ('open', 'completed') GROUP BY issuer;

                    CREATE TABLE event (
                        sequence INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
                        id TEXT NOT NULL UNIQUE,
                        kind TEXT NOT NULL,
                        upload_id TEXT NOT NULL,
                        subject TEXT,
                        occurred_at INTEGER NOT NULL,
                        -- The upload as it was then, and the request, as JSON.
                        content TEXT NOT NULL,
                        -- NULL for one that nobody is told.
                        delivery TEXT CHECK (delivery IN ('pending', 'delivered', 'dead')),
                        attempts INTEGER NOT NULL DEFAULT 0,
                        -- Only of the first pending event of an upload; the others wait for it.
                        next_attempt_at INTEGER,
                        settled_at INTEGER,
                        last_error TEXT,
                        CHECK (next_attempt_at IS NULL OR delivery = 'pending')
                    ) STRICT;
                    CREATE INDEX event_by_upload ON event (upload_id, sequence);
                    CREATE INDEX event_due ON event (next_attempt_at) WHERE next_attempt_at IS NOT NULL;
                    CREATE INDEX event_pending_by_upload ON event (upload_id, sequence) WHERE delivery = 'pending';
                    CREATE INDEX event_by_delivery ON event (delivery, sequence) WHERE delivery IS NOT NULL;
                    CREATE INDEX event_by_time ON event (occurred_at);
                    """
            )
        }
        migrator.registerMigration("0004 representation digests") { database in
            try database.execute(
                sql: """
                    -- Objects of algorithm and base64: what the client announced, and what the bytes were found to have.
                    ALTER TABLE upload ADD COLUMN expected_digests TEXT;
                    ALTER TABLE media ADD COLUMN digests TEXT;
                    """
            )
        }
        migrator.registerMigration("0005 pulls") { database in
            try database.execute(
                sql: """
                    -- next_attempt_at is null once the job is over, and sealed is then empty.
                    CREATE TABLE pull (
                        upload_id TEXT NOT NULL PRIMARY KEY REFERENCES upload (id) ON DELETE CASCADE,
                        url TEXT NOT NULL,
                        sealed TEXT NOT NULL,
                        content_types TEXT NOT NULL,
                        validator TEXT,
                        total INTEGER CHECK (total >= 0),
                        attempts INTEGER NOT NULL,
                        failures INTEGER NOT NULL,
                        furthest INTEGER NOT NULL,
                        next_attempt_at INTEGER,
                        is_failed INTEGER NOT NULL CHECK (is_failed IN (0, 1)),
                        error_code TEXT,
                        error_message TEXT
                    ) STRICT, WITHOUT ROWID;
                    CREATE INDEX pull_pending ON pull (next_attempt_at, upload_id) WHERE next_attempt_at IS NOT NULL;
                    """
            )
        }
        migrator.registerMigration("0006 lists of uploads by dialect") { database in
            try database.execute(sql: "CREATE INDEX upload_by_dialect ON upload (dialect, id)")
        }
        migrator.registerMigration("0007 blobs in an object store") { database in
            try database.execute(
                sql: """
                    -- What an object store holds of an upload. It is there before the upload and outlives it, until it is removed.
                    CREATE TABLE blob (
                        id TEXT NOT NULL PRIMARY KEY,
                        -- One more with each change.
                        version INTEGER NOT NULL,
                        state TEXT NOT NULL CHECK (state IN ('open', 'completing', 'complete')),
                        bucket TEXT NOT NULL,
                        object_key TEXT NOT NULL,
                        content_type TEXT,
                        part_size INTEGER NOT NULL CHECK (part_size >= 0),
                        multipart TEXT,
                        is_beginning INTEGER NOT NULL CHECK (is_beginning IN (0, 1)),
                        part_count INTEGER NOT NULL CHECK (part_count >= 0),
                        part_bytes INTEGER NOT NULL CHECK (part_bytes >= 0),
                        -- A list of objects of key, length and MD5.
                        sides TEXT NOT NULL,
                        crc32c INTEGER CHECK (crc32c BETWEEN 0 AND 4294967295),
                        entity_tag TEXT,
                        created_at INTEGER NOT NULL
                    ) STRICT, WITHOUT ROWID;
                    CREATE INDEX blob_completing ON blob (id) WHERE state = 'completing';

                    CREATE TABLE blob_part (
                        blob_id TEXT NOT NULL REFERENCES blob (id) ON DELETE CASCADE,
                        number INTEGER NOT NULL CHECK (number >= 1),
                        size INTEGER NOT NULL CHECK (size >= 0),
                        entity_tag TEXT NOT NULL,
                        PRIMARY KEY (blob_id, number)
                    ) STRICT, WITHOUT ROWID;
                    """
            )
        }
        migrator.registerMigration("0008 objects, their parts, buckets") { database in
            try database.execute(
                sql: """
                    -- What becomes an object has a bucket, and its key is the object's. The attributes are JSON.
                    ALTER TABLE upload ADD COLUMN bucket TEXT CHECK (bucket IS NULL OR object_key IS NOT NULL);
                    ALTER TABLE upload ADD COLUMN attributes TEXT;
                    ALTER TABLE upload ADD COLUMN takes_parts INTEGER NOT NULL DEFAULT 0 CHECK (takes_parts IN (0, 1));
                    ALTER TABLE media ADD COLUMN bucket TEXT CHECK (bucket IS NULL OR object_key IS NOT NULL);
                    ALTER TABLE media ADD COLUMN attributes TEXT;
                    CREATE UNIQUE INDEX media_by_name ON media (bucket, object_key) WHERE bucket IS NOT NULL;
                    CREATE INDEX upload_open_by_name ON upload (bucket, takes_parts, object_key, id)
                        WHERE state = 'open' AND bucket IS NOT NULL;

                    -- Only while the upload is open.
                    CREATE TABLE object_part (
                        upload_id TEXT NOT NULL REFERENCES upload (id) ON DELETE CASCADE,
                        number INTEGER NOT NULL CHECK (number >= 1),
                        size INTEGER NOT NULL CHECK (size >= 0),
                        md5 BLOB NOT NULL,
                        -- The bits of a number without sign.
                        crc64 INTEGER NOT NULL,
                        checksum BLOB,
                        location TEXT NOT NULL,
                        stored_at INTEGER NOT NULL,
                        PRIMARY KEY (upload_id, number)
                    ) STRICT, WITHOUT ROWID;

                    CREATE TABLE bucket (
                        name TEXT NOT NULL PRIMARY KEY,
                        created_at INTEGER NOT NULL,
                        -- An object of documents by their names.
                        documents TEXT NOT NULL
                    ) STRICT, WITHOUT ROWID;
                    """
            )
        }
        migrator.registerMigration("0009 the mark of the storage") { database in
            try database.execute(
                sql: """
                    -- One row: which storage belongs to this state, see StoreBinding.
                    CREATE TABLE store (
                        number INTEGER NOT NULL PRIMARY KEY CHECK (number = 1),
                        id TEXT NOT NULL,
                        epoch INTEGER NOT NULL CHECK (epoch >= 0),
                        is_sweep_approved INTEGER NOT NULL CHECK (is_sweep_approved IN (0, 1))
                    ) STRICT;
                    """
            )
        }
        migrator.registerMigration("0010 limits of API keys, revocations, URLs of pulls") { database in
            try database.execute(
                sql: """
                    -- An object of lists; NULL for a key that is not limited.
                    ALTER TABLE api_key ADD COLUMN limits TEXT;
                    CREATE INDEX api_key_revoked ON api_key (revoked_at) WHERE revoked_at IS NOT NULL;

                    -- What was minted earlier is over. The empty subject is everybody.
                    CREATE TABLE revocation (
                        subject TEXT NOT NULL PRIMARY KEY,
                        issued_before INTEGER NOT NULL,
                        created_at INTEGER NOT NULL
                    ) STRICT, WITHOUT ROWID;
                    CREATE INDEX revocation_by_time ON revocation (created_at);

                    -- Where bytes come from is in the sealed request only.
                    UPDATE pull SET url = '';
                    """
            )
        }
        return migrator
    }
}
