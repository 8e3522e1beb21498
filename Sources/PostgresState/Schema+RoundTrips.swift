extension Schema {
    /// For transactions of one round trip that lock nothing that others need, see
    /// docs/decisions/0045-postgres-round-trips.md.
    static let roundTrips = Migration(
        number: 8,
        statements: """
            -- Fails the transaction unless the condition is met, so that its COMMIT can be sent before the result is known.
            CREATE FUNCTION sluice_demand(is_met boolean) RETURNS boolean LANGUAGE plpgsql AS $body$
            BEGIN
                IF is_met THEN RETURN true; END IF;
                RAISE EXCEPTION 'a condition of the transaction is not met' USING ERRCODE = 'SLU01';
            END
            $body$;

            -- Events without a sequence number, for a moment. Those of one upload are in the order of their positions.
            CREATE TABLE unnumbered_event (
                position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                -- The node that recorded it.
                node bigint NOT NULL,
                id text COLLATE "C" NOT NULL,
                kind text COLLATE "C" NOT NULL,
                upload_id text COLLATE "C" NOT NULL,
                subject text COLLATE "C",
                occurred_at bigint NOT NULL,
                content text NOT NULL,
                delivery text COLLATE "C" CHECK (delivery IN ('pending', 'delivered', 'dead')),
                -- When its delivery is due, by the clock of the node that recorded it.
                due_at bigint
            ) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

            -- Changes of accounts without limits that are not in their rows yet. Changes of one upload are in the order of
            -- their positions.
            CREATE TABLE account_change (
                kind text COLLATE "C" NOT NULL,
                name text COLLATE "C" NOT NULL,
                position bigint GENERATED ALWAYS AS IDENTITY,
                -- The start of the quota period; NULL if the change only reduces usage.
                period_start bigint,
                -- When the upload was created.
                created_at bigint NOT NULL,
                stored_bytes bigint NOT NULL,
                reserved_bytes bigint NOT NULL,
                open_uploads bigint NOT NULL,
                period_bytes bigint NOT NULL,
                period_uploads bigint NOT NULL,
                PRIMARY KEY (kind, name, position)
            ) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

            -- Whether the node reads account_change. Nodes of the previous version do not: while one of them runs, no node
            -- adds rows to it.
            ALTER TABLE node ADD COLUMN reads_changes boolean NOT NULL DEFAULT false;
            """
    )
}
