extension Schema {
    /// For events that nothing wants, see docs/decisions/0049-events-that-nothing-wants.md.
    static let eventRecording = Migration(
        number: 9,
        statements: """
            -- One row. Events before kept_until are recorded even if no hook receives them; none after the sequence number
            -- complete_after was left out. No running transaction has read a time before agreed_until. Versions before this
            -- one recorded all events, so a client that returns after the upgrade misses none.
            CREATE TABLE event_recording (
                is_single boolean PRIMARY KEY DEFAULT true CHECK (is_single),
                kept_until bigint NOT NULL,
                agreed_until bigint NOT NULL,
                complete_after bigint NOT NULL
            );
            INSERT INTO event_recording (kept_until, agreed_until, complete_after)
            SELECT kept.until, kept.until, 0 FROM (
                SELECT CASE
                    WHEN last > 0 OR EXISTS (SELECT FROM unnumbered_event)
                        THEN (extract(epoch FROM now()) * 1000)::bigint + 7 * 86400000::bigint
                    ELSE 0
                END AS until FROM event_counter
            ) AS kept;
            """
    )
}
