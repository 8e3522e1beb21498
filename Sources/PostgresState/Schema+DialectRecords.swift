extension Schema {
    /// See docs/decisions/0050-records-of-dialects.md.
    static let dialectRecords = Migration(
        number: 10,
        statements: """
            -- Sessions, used signatures and the like, as JSON; only the dialect knows what is in them.
            CREATE TABLE dialect_record (
                kind text COLLATE "C" NOT NULL,
                key text COLLATE "C" NOT NULL,
                text text NOT NULL,
                -- Incremented with each change.
                version bigint NOT NULL CHECK (version >= 1),
                created_at bigint NOT NULL,
                expires_at bigint,
                PRIMARY KEY (kind, key)
            );
            CREATE INDEX dialect_record_by_expiry ON dialect_record (expires_at) WHERE expires_at IS NOT NULL;
            """
    )
}
