internal import StateRecords

/// The tables, and the migrations from older versions.
///
/// They are in the first schema of the connection's `search_path`.
enum Schema {
    struct Migration {
        let number: Int64
        let statements: String
    }

    /// Migrates the schema; if several nodes start at the same time, one does it and the others wait.
    ///
    /// - Throws: `DatabaseFailure`; `NewerSchema`.
    static func migrate(_ connection: Connection, _ migrations: [Migration] = migrations) throws {
        // If the schema is current, a node needs neither a lock nor the right to create tables.
        if try applied(connection) == migrations.last?.number { return }
        try connection.begin()
        let usual = connection.answerTime
        defer { connection.answerTime = usual }
        connection.answerTime = nil
        do {
            try connection.execute("SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0")
            _ = try connection.row(
                "SELECT pg_advisory_xact_lock(hashtextextended('sluice schema ' || current_schema(), 0)) IS NULL"
            )
            let done = try applied(connection)
            if done > migrations.last?.number ?? 0 { throw NewerSchema() }
            if done == 0 {
                try connection.execute(
                    "CREATE TABLE sluice_migration (number bigint PRIMARY KEY, applied_at timestamptz NOT NULL)"
                )
            }
            for migration in migrations where migration.number > done {
                try connection.execute(migration.statements)
                try connection.run("INSERT INTO sluice_migration VALUES ($1, now())", [migration.number])
            }
            try connection.commit()
        } catch {
            connection.rollback()
            throw error
        }
    }

    /// The last migration applied; 0 for none.
    private static func applied(_ connection: Connection) throws(DatabaseFailure) -> Int64 {
        guard try connection.hasTable("sluice_migration") else { return 0 }
        return try connection.row("SELECT max(number) AS last FROM sluice_migration")?.integer("last") ?? 0
    }

    /// How the tables compare with those of this version; reads only.
    static func age(_ connection: Connection) throws(DatabaseFailure) -> SchemaAge {
        let (found, own) = (try applied(connection), migrations.last?.number ?? 0)
        return found == 0 ? .missing : found < own ? .older : found == own ? .current : .newer
    }

    /// Released migrations are never changed; each change of the schema is a new migration.
    ///
    /// Times are Unix milliseconds. JSON is stored as text, because `jsonb` cannot hold NUL. Ids and other compared
    /// texts sort by their bytes; ids of uploads sort by creation time, so lists follow the primary key.
    static let migrations = [
        Migration(
            number: 1,
            statements: """
                CREATE TABLE upload (
                    id text COLLATE "C" PRIMARY KEY,
                    alias text COLLATE "C",
                    object_key text,
                    dialect text COLLATE "C" NOT NULL,
                    subject text COLLATE "C",
                    principal text NOT NULL,
                    issuer text COLLATE "C",
                    length bigint CHECK (length >= 0),
                    maximum_bytes bigint CHECK (maximum_bytes >= 0),
                    reserved_bytes bigint NOT NULL CHECK (reserved_bytes >= 0),
                    completes_when_full boolean NOT NULL,
                    state text COLLATE "C" NOT NULL CHECK (state IN ('open', 'completed', 'terminated', 'expired')),
                    metadata_raw text,
                    metadata text NOT NULL,
                    -- The field as it was sent, and of a final upload its parts as a list of ids.
                    concatenation_raw text,
                    concatenation_parts text,
                    -- An object of algorithm and base64.
                    expected_digests text,
                    created_at bigint NOT NULL,
                    updated_at bigint NOT NULL,
                    expires_at bigint,
                    ended_at bigint,
                    CHECK ((state = 'open') = (ended_at IS NULL)),
                    CHECK (state <> 'completed' OR length IS NOT NULL),
                    CHECK (concatenation_parts IS NULL OR concatenation_raw IS NOT NULL)
                );
                CREATE INDEX upload_by_state ON upload (state, id);
                CREATE INDEX upload_by_subject ON upload (subject, id) WHERE subject IS NOT NULL;
                CREATE INDEX upload_by_issuer ON upload (issuer, id) WHERE issuer IS NOT NULL;
                CREATE INDEX upload_by_dialect ON upload (dialect, id);
                CREATE UNIQUE INDEX upload_by_alias ON upload (alias) WHERE alias IS NOT NULL;
                CREATE INDEX upload_by_expiry ON upload (expires_at) WHERE expires_at IS NOT NULL;
                CREATE INDEX upload_ended ON upload (ended_at) WHERE state IN ('terminated', 'expired');

                -- Only while the final upload is open.
                CREATE TABLE awaited_part (
                    part_id text COLLATE "C" NOT NULL,
                    final_id text COLLATE "C" NOT NULL REFERENCES upload (id) ON DELETE CASCADE,
                    PRIMARY KEY (part_id, final_id)
                );
                CREATE INDEX awaited_part_by_final ON awaited_part (final_id);

                CREATE TABLE media (
                    id text COLLATE "C" PRIMARY KEY REFERENCES upload (id) ON DELETE CASCADE,
                    object_key text,
                    subject text,
                    size bigint NOT NULL CHECK (size >= 0),
                    content_type text,
                    filename text,
                    metadata text NOT NULL,
                    digests text,
                    created_at bigint NOT NULL
                );

                -- next_attempt_at is null once the job is over, and sealed is then empty.
                CREATE TABLE pull (
                    upload_id text COLLATE "C" PRIMARY KEY REFERENCES upload (id) ON DELETE CASCADE,
                    url text NOT NULL,
                    sealed text NOT NULL,
                    content_types text NOT NULL,
                    validator text,
                    total bigint CHECK (total >= 0),
                    attempts bigint NOT NULL,
                    failures bigint NOT NULL,
                    furthest bigint NOT NULL,
                    next_attempt_at bigint,
                    is_failed boolean NOT NULL,
                    error_code text,
                    error_message text
                );
                CREATE INDEX pull_pending ON pull (next_attempt_at, upload_id) WHERE next_attempt_at IS NOT NULL;

                CREATE TABLE used_grant (
                    id text COLLATE "C" PRIMARY KEY,
                    upload_id text NOT NULL,
                    expires_at bigint NOT NULL
                );
                CREATE INDEX used_grant_by_expiry ON used_grant (expires_at);

                CREATE TABLE api_key (
                    id text COLLATE "C" PRIMARY KEY,
                    name text NOT NULL,
                    scopes text NOT NULL,
                    created_at bigint NOT NULL,
                    expires_at bigint,
                    revoked_at bigint,
                    digest bytea NOT NULL UNIQUE,
                    is_preset boolean NOT NULL
                );

                CREATE TABLE account (
                    kind text COLLATE "C" NOT NULL CHECK (kind IN ('subject', 'key')),
                    name text COLLATE "C" NOT NULL,
                    stored_bytes bigint NOT NULL DEFAULT 0 CHECK (stored_bytes >= 0),
                    reserved_bytes bigint NOT NULL DEFAULT 0 CHECK (reserved_bytes >= 0),
                    open_uploads bigint NOT NULL DEFAULT 0 CHECK (open_uploads >= 0),
                    period_start bigint NOT NULL,
                    period_bytes bigint NOT NULL DEFAULT 0 CHECK (period_bytes >= 0),
                    period_uploads bigint NOT NULL DEFAULT 0 CHECK (period_uploads >= 0),
                    policy text,
                    PRIMARY KEY (kind, name)
                );

                CREATE TABLE event (
                    sequence bigint PRIMARY KEY,
                    id text COLLATE "C" NOT NULL UNIQUE,
                    kind text COLLATE "C" NOT NULL,
                    upload_id text COLLATE "C" NOT NULL,
                    subject text COLLATE "C",
                    occurred_at bigint NOT NULL,
                    -- The upload at that time, and the request, as JSON.
                    content text NOT NULL,
                    -- NULL for an event that is not delivered to the app.
                    delivery text COLLATE "C" CHECK (delivery IN ('pending', 'delivered', 'dead')),
                    attempts bigint NOT NULL DEFAULT 0,
                    -- Set only for the first pending event of an upload; the others wait for it.
                    next_attempt_at bigint,
                    settled_at bigint,
                    last_error text,
                    CHECK (next_attempt_at IS NULL OR delivery = 'pending')
                );
                CREATE INDEX event_by_upload ON event (upload_id, sequence);
                CREATE INDEX event_due ON event (next_attempt_at, sequence) WHERE next_attempt_at IS NOT NULL;
                CREATE INDEX event_pending_by_upload ON event (upload_id, sequence) WHERE delivery = 'pending';
                CREATE INDEX event_by_delivery ON event (delivery, sequence) WHERE delivery IS NOT NULL;
                CREATE INDEX event_told ON event (sequence) WHERE delivery IS NOT NULL;
                CREATE INDEX event_by_time ON event (occurred_at);

                -- The sequence number of the newest event. One row; a transaction that adds events locks it until its commit.
                CREATE TABLE event_counter (
                    is_single boolean PRIMARY KEY DEFAULT true CHECK (is_single),
                    last bigint NOT NULL
                );
                INSERT INTO event_counter (last) VALUES (0);
                """
        ),
        Migration(
            number: 2,
            statements: """
                -- By the clock of the database. A node also holds the advisory lock of its id, shared, as long as it is connected.
                CREATE TABLE node (
                    id bigint PRIMARY KEY,
                    heartbeat_at timestamptz NOT NULL
                );

                CREATE SEQUENCE lease_epoch;

                -- Exists only while a node uses the upload or waits for it.
                CREATE TABLE upload_lease (
                    upload_id text COLLATE "C" PRIMARY KEY,
                    node bigint NOT NULL,
                    epoch bigint NOT NULL,
                    -- Waiting nodes, in the order in which they get the lease.
                    waiters bigint[] NOT NULL
                );
                """
        ),
        Migration(
            number: 3,
            statements: """
                -- What an object store holds of an upload. Created before the upload's record, and kept after its end until the blob is removed.
                CREATE TABLE blob (
                    id text COLLATE "C" PRIMARY KEY,
                    -- Incremented with each change.
                    version bigint NOT NULL,
                    state text COLLATE "C" NOT NULL CHECK (state IN ('open', 'completing', 'complete')),
                    bucket text NOT NULL,
                    object_key text NOT NULL,
                    content_type text,
                    part_size bigint NOT NULL CHECK (part_size >= 0),
                    multipart text,
                    is_beginning boolean NOT NULL,
                    part_count bigint NOT NULL CHECK (part_count >= 0),
                    part_bytes bigint NOT NULL CHECK (part_bytes >= 0),
                    -- A list of objects of key, length and MD5.
                    sides text NOT NULL,
                    crc32c bigint CHECK (crc32c BETWEEN 0 AND 4294967295),
                    entity_tag text,
                    created_at bigint NOT NULL
                );
                CREATE INDEX blob_completing ON blob (id) WHERE state = 'completing';

                CREATE TABLE blob_part (
                    blob_id text COLLATE "C" NOT NULL REFERENCES blob (id) ON DELETE CASCADE,
                    number bigint NOT NULL CHECK (number >= 1),
                    size bigint NOT NULL CHECK (size >= 0),
                    entity_tag text NOT NULL,
                    PRIMARY KEY (blob_id, number)
                );
                """
        ),
        Migration(
            number: 4,
            statements: """
                -- Number of times the job was claimed; a holder of a lower number has lost it. While it is claimed, next_attempt_at is
                -- the end of the claim.
                ALTER TABLE pull ADD COLUMN claim bigint NOT NULL DEFAULT 0;
                ALTER TABLE pull ADD COLUMN is_claimed boolean NOT NULL DEFAULT false;

                -- For lists of deliveries only: a search for the pending event of an upload must not scan all pending events.
                DROP INDEX event_by_delivery;
                CREATE INDEX event_by_delivery ON event ((delivery || ''), sequence) WHERE delivery IS NOT NULL;

                -- When a node last claimed a periodic job (`JobClaims`). The table keeps its old name: during a rolling upgrade,
                -- nodes of the previous version use it after a newer one has migrated the schema.
                CREATE TABLE duty (
                    name text COLLATE "C" PRIMARY KEY,
                    done_at bigint NOT NULL
                );
                """
        ),
        Migration(
            number: 5,
            statements: """
                -- What becomes an object has a bucket, and its key is the object's. The attributes are JSON.
                ALTER TABLE upload ADD COLUMN bucket text COLLATE "C" CHECK (bucket IS NULL OR object_key IS NOT NULL);
                ALTER TABLE upload ADD COLUMN attributes text;
                ALTER TABLE upload ADD COLUMN takes_parts boolean NOT NULL DEFAULT false;
                ALTER TABLE media ADD COLUMN bucket text COLLATE "C" CHECK (bucket IS NULL OR object_key IS NOT NULL);
                ALTER TABLE media ADD COLUMN attributes text;
                -- The collation of object_key is unchanged: statements that nodes of the previous version have prepared would fail
                -- once, because their result type would differ.
                CREATE UNIQUE INDEX media_by_name ON media (bucket, object_key COLLATE "C") WHERE bucket IS NOT NULL;
                CREATE INDEX upload_open_by_name ON upload (bucket, takes_parts, object_key COLLATE "C", id)
                    WHERE state = 'open' AND bucket IS NOT NULL;

                -- Only while the upload is open.
                CREATE TABLE object_part (
                    upload_id text COLLATE "C" NOT NULL REFERENCES upload (id) ON DELETE CASCADE,
                    number bigint NOT NULL CHECK (number >= 1),
                    size bigint NOT NULL CHECK (size >= 0),
                    md5 bytea NOT NULL,
                    -- An unsigned number, stored with the same bits.
                    crc64 bigint NOT NULL,
                    checksum bytea,
                    location text NOT NULL,
                    stored_at bigint NOT NULL,
                    PRIMARY KEY (upload_id, number)
                );

                CREATE TABLE bucket (
                    name text COLLATE "C" PRIMARY KEY,
                    created_at bigint NOT NULL,
                    -- An object of documents by their names.
                    documents text NOT NULL
                );
                """
        ),
        Migration(
            number: 6,
            statements: """
                -- One row: which storage belongs to this state, see StoreBinding.
                CREATE TABLE store (
                    number bigint PRIMARY KEY CHECK (number = 1),
                    id text NOT NULL,
                    epoch bigint NOT NULL CHECK (epoch >= 0),
                    is_sweep_approved boolean NOT NULL
                );
                """
        ),
        Migration(
            number: 7,
            statements: """
                -- An object of lists; NULL for a key that is not limited.
                ALTER TABLE api_key ADD COLUMN limits text;
                CREATE INDEX api_key_revoked ON api_key (revoked_at) WHERE revoked_at IS NOT NULL;

                -- Anything minted earlier is revoked. The empty subject stands for all users.
                CREATE TABLE revocation (
                    subject text COLLATE "C" PRIMARY KEY,
                    issued_before bigint NOT NULL,
                    created_at bigint NOT NULL
                );
                CREATE INDEX revocation_by_time ON revocation (created_at);

                -- The origin of the bytes is in the sealed request only.
                UPDATE pull SET url = '';
                """
        ),
        roundTrips,
        eventRecording,
        dialectRecords,
        keyRotation,
        deliveryTurns,
        dialectTerms,
    ]
}

/// The tables were created by a newer version.
struct NewerSchema: Error {}

extension Connection {
    /// Whether the schema has this table.
    func hasTable(_ name: String) throws(DatabaseFailure) -> Bool {
        // Not `to_regclass`: it may use a cache from before a lock, while another node has created the table.
        let row = try row(
            """
            SELECT EXISTS (
                SELECT FROM pg_tables WHERE schemaname = current_schema() AND tablename = $1
            ) AS there
            """,
            [name]
        )
        return row?.flag("there") == true
    }
}
