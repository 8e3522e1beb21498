internal import GRDB

extension DatabaseFile {
    /// Released migrations are never changed; each change of the schema is a new migration.
    ///
    /// Times are Unix milliseconds. Ids of uploads sort by creation time, so lists follow the primary key.
    private static let migrations: [(name: String, sql: String)] = [
        (
            "0001 uploads, media, used grants, API keys",
            """
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
        ),
        (
            "0002 lengths that are told later, concatenations",
            """
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
        ),
        (
            "0003 accounts, events, names by the app",
            """
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
        ),
        (
            "0004 representation digests",
            """
            -- Objects of algorithm and base64: what the client announced, and what the bytes were found to have.
            ALTER TABLE upload ADD COLUMN expected_digests TEXT;
            ALTER TABLE media ADD COLUMN digests TEXT;
            """
        ),
        (
            "0005 pulls",
            """
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
        ),
        ("0006 lists of uploads by dialect", "CREATE INDEX upload_by_dialect ON upload (dialect, id)"),
        (
            "0007 blobs in an object store",
            """
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
        ),
        (
            "0008 objects, their parts, buckets",
            """
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
        ),
        (
            "0009 the mark of the storage",
            """
            -- One row: which storage belongs to this state, see StoreBinding.
            CREATE TABLE store (
                number INTEGER NOT NULL PRIMARY KEY CHECK (number = 1),
                id TEXT NOT NULL,
                epoch INTEGER NOT NULL CHECK (epoch >= 0),
                is_sweep_approved INTEGER NOT NULL CHECK (is_sweep_approved IN (0, 1))
            ) STRICT;
            """
        ),
        (
            "0010 limits of API keys, revocations, URLs of pulls",
            """
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
        ),
        (
            "0011 events that nothing wants are left out",
            """
            -- One row. Events before kept_until are recorded even if no hook receives them; none after the sequence number
            -- complete_after was left out. Versions before this one recorded all, so a client that returns after the upgrade
            -- misses none.
            CREATE TABLE event_recording (
                number INTEGER NOT NULL PRIMARY KEY CHECK (number = 1),
                kept_until INTEGER NOT NULL,
                complete_after INTEGER NOT NULL
            ) STRICT;
            INSERT INTO event_recording (number, kept_until, complete_after)
                SELECT 1, iif(EXISTS (SELECT 1 FROM event), (strftime('%s', 'now') + 7 * 86400) * 1000, 0), 0;
            """
        ),
        (
            "0012 records of dialects",
            """
            -- Sessions, used signatures and the like, as JSON; only the dialect knows what is in them.
            CREATE TABLE dialect_record (
                kind TEXT NOT NULL,
                key TEXT NOT NULL,
                text TEXT NOT NULL,
                -- One more with each change.
                version INTEGER NOT NULL CHECK (version >= 1),
                created_at INTEGER NOT NULL,
                expires_at INTEGER,
                PRIMARY KEY (kind, key)
            ) STRICT, WITHOUT ROWID;
            CREATE INDEX dialect_record_by_expiry ON dialect_record (expires_at) WHERE expires_at IS NOT NULL;
            """
        ),
        (
            "0013 rotation and last use of API keys",
            """
            -- The secret before the last rotation, and how long it is accepted.
            ALTER TABLE api_key ADD COLUMN previous_digest BLOB;
            ALTER TABLE api_key ADD COLUMN previous_until INTEGER;
            ALTER TABLE api_key ADD COLUMN last_used_at INTEGER;
            CREATE INDEX api_key_previous ON api_key (previous_digest) WHERE previous_digest IS NOT NULL;
            """
        ),
        (
            "0014 deliveries in turns of users",
            """
            CREATE INDEX event_due_by_user ON event (coalesce(subject, ''), next_attempt_at, sequence)
                WHERE next_attempt_at IS NOT NULL;
            """
        ),
        (
            "0015 terms of records of dialects",
            """
            -- The version whose terms are recorded. What an earlier version writes keeps an older one, or has none.
            ALTER TABLE dialect_record ADD COLUMN terms_version INTEGER;
            CREATE INDEX dialect_record_without_terms ON dialect_record (kind, key)
                WHERE terms_version IS NULL OR terms_version <> version;

            CREATE TABLE dialect_term (
                kind TEXT NOT NULL,
                term TEXT NOT NULL,
                position INTEGER NOT NULL,
                key TEXT NOT NULL,
                PRIMARY KEY (kind, term, position, key),
                FOREIGN KEY (kind, key) REFERENCES dialect_record (kind, key) ON DELETE CASCADE
            ) STRICT, WITHOUT ROWID;
            CREATE INDEX dialect_term_by_record ON dialect_term (kind, key);
            """
        ),
    ]

    static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        for (name, sql) in migrations {
            migrator.registerMigration(name) { try $0.execute(sql: sql) }
        }
        return migrator
    }
}
