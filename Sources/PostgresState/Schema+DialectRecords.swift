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

    /// See docs/decisions/0082-terms-of-records.md.
    static let dialectTerms = Migration(
        number: 13,
        statements: """
            -- The version whose terms are recorded. What an earlier version writes keeps an older one, or has none.
            ALTER TABLE dialect_record ADD COLUMN terms_version bigint;
            CREATE INDEX dialect_record_without_terms ON dialect_record (kind, key)
                WHERE terms_version IS NULL OR terms_version <> version;

            CREATE TABLE dialect_term (
                kind text COLLATE "C" NOT NULL,
                term text COLLATE "C" NOT NULL,
                position bigint NOT NULL,
                key text COLLATE "C" NOT NULL,
                PRIMARY KEY (kind, term, position, key),
                FOREIGN KEY (kind, key) REFERENCES dialect_record (kind, key) ON DELETE CASCADE
            );
            CREATE INDEX dialect_term_by_record ON dialect_term (kind, key);
            """
    )
}
