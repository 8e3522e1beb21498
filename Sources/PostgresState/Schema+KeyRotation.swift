extension Schema {
    /// Rotation and last use of API keys.
    static let keyRotation = Migration(
        number: 11,
        statements: """
            -- The secret before the last rotation, and how long it is accepted.
            ALTER TABLE api_key ADD COLUMN previous_digest bytea;
            ALTER TABLE api_key ADD COLUMN previous_until bigint;
            ALTER TABLE api_key ADD COLUMN last_used_at bigint;
            CREATE INDEX api_key_previous ON api_key (previous_digest) WHERE previous_digest IS NOT NULL;
            """
    )
}
