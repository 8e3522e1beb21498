package import Foundation
internal import GRDB
internal import StateRecords
package import UploadCore

extension SQLiteState {
    package func record(_ event: EventRecord) async throws(UploadError) {
        try await write { database in
            guard event.kind == .progress else { return try database.insert(event) }
            try database.run(
                """
                UPDATE event SET content = ?, occurred_at = ?
                WHERE sequence = (SELECT max(sequence) FROM event WHERE upload_id = ?)
                    AND kind = 'progress' AND delivery = 'pending' AND attempts = 0
                """,
                [try JSONText(StoredEvent(event)), Milliseconds(event.occurredAt), event.upload.id.text]
            )
            if database.changesCount == 0 { try database.insert(event) }
        }
    }

    package func events(_ query: EventQuery) async throws(UploadError) -> [EventRecord] {
        try await read { database in
            let (sql, arguments) = Self.statement(of: query)
            return try database.rows(sql, arguments).map(EventRecord.init(row:))
        }
    }

    /// Events of one upload by their index, others in the order of the table.
    static func statement(of query: EventQuery) -> (sql: String, arguments: StatementArguments) {
        var filter = ""
        var arguments: StatementArguments = [query.after]
        if let through = query.through {
            filter += " AND sequence <= ?"
            arguments += [through]
        }
        if let upload = query.upload {
            filter += " AND upload_id = ?"
            arguments += [upload.text]
        }
        if let subject = query.subject {
            filter += " AND subject = ?"
            arguments += [subject]
        }
        if let kinds = query.kinds {
            filter += " AND kind IN (\(Array(repeating: "?", count: kinds.count).joined(separator: ", ")))"
            arguments += StatementArguments(kinds.map(\.rawValue))
        }
        arguments += [query.limit]
        let index = query.upload == nil ? "" : "INDEXED BY event_by_upload "
        return ("SELECT * FROM event \(index)WHERE sequence > ?\(filter) ORDER BY sequence LIMIT ?", arguments)
    }

    package func lastEvent() async throws(UploadError) -> Int64 {
        try await read { database in
            // Also when the newest were forgotten: a sequence is never used again.
            try Int64.fetchOne(database, sql: "SELECT seq FROM sqlite_sequence WHERE name = 'event'") ?? 0
        }
    }

    package func dueDeliveries(at now: Date, limit: Int) async throws(UploadError) -> [EventRecord] {
        try await read { database in
            try database.rows(
                "SELECT * FROM event INDEXED BY event_due WHERE next_attempt_at <= ? ORDER BY next_attempt_at, sequence LIMIT ?",
                [Milliseconds(now), limit]
            ).map(EventRecord.init(row:))
        }
    }

    package func nextDelivery() async throws(UploadError) -> Date? {
        try await read { database in
            try database.row(
                "SELECT min(next_attempt_at) AS next FROM event INDEXED BY event_due WHERE next_attempt_at IS NOT NULL"
            )?.optionalDate("next", of: "event")
        }
    }

    package func settle(_ sequence: Int64, as outcome: DeliveryOutcome, at now: Date) async throws(UploadError) {
        try await write { database in
            switch outcome {
            case .delivered:
                try database.run(
                    """
                    UPDATE event SET delivery = 'delivered', attempts = attempts + 1, next_attempt_at = NULL,
                        settled_at = ?, last_error = NULL
                    WHERE sequence = ? AND delivery = 'pending'
                    """,
                    [Milliseconds(now), sequence]
                )
            case .retry(let date, let error):
                try database.run(
                    """
                    UPDATE event SET attempts = attempts + 1, next_attempt_at = ?, last_error = ?
                    WHERE sequence = ? AND delivery = 'pending'
                    """,
                    [Milliseconds(date), error, sequence]
                )
            case .dead(let error):
                try database.run(
                    """
                    UPDATE event SET delivery = 'dead', attempts = attempts + 1, next_attempt_at = NULL,
                        settled_at = ?, last_error = ?
                    WHERE sequence = ? AND delivery = 'pending'
                    """,
                    [Milliseconds(now), error, sequence]
                )
            }
            if case .retry = outcome { return }
            let upload = try database.row("SELECT upload_id FROM event WHERE sequence = ?", [sequence])
            if let upload { try database.schedule(upload.value("upload_id", of: "event"), at: now) }
        }
    }

    package func deliveries(_ query: DeliveryQuery) async throws(UploadError) -> [EventRecord] {
        try await read { database in
            var filter = "delivery IS NOT NULL"
            var arguments = StatementArguments()
            if let state = query.state {
                filter = "delivery = ?"
                arguments += [state.rawValue]
            }
            if let before = query.before {
                filter += " AND sequence < ?"
                arguments += [before]
            }
            arguments += [query.limit]
            return try database.rows(
                "SELECT * FROM event WHERE \(filter) ORDER BY sequence DESC LIMIT ?",
                arguments
            ).map(EventRecord.init(row:))
        }
    }

    package func redeliver(_ ids: [String]?, at now: Date) async throws(UploadError) -> Int {
        try await write { database in
            let wanted =
                try ids.map { ids in
                    try ids.compactMap {
                        try database.row(
                            "SELECT sequence, upload_id FROM event WHERE id = ? AND delivery IS NOT NULL",
                            [$0]
                        )
                    }
                } ?? database.rows("SELECT sequence, upload_id FROM event WHERE delivery = 'dead'")
            var uploads: Set<String> = []
            for row in wanted {
                let sequence: Int64 = try row.value("sequence", of: "event")
                try database.run(
                    """
                    UPDATE event SET delivery = 'pending', attempts = 0, next_attempt_at = NULL, settled_at = NULL,
                        last_error = NULL
                    WHERE sequence = ?
                    """,
                    [sequence]
                )
                uploads.insert(try row.value("upload_id", of: "event"))
            }
            for upload in uploads { try database.schedule(upload, at: now) }
            return wanted.count
        }
    }
}

extension Database {
    func insert(_ event: EventRecord) throws {
        let upload = event.upload.id.text
        try run(
            """
            INSERT INTO event (id, kind, upload_id, subject, occurred_at, content, delivery)
            VALUES (?, ?, ?, ?, ?, ?, ?)
            """,
            [
                event.id, event.kind.rawValue, upload, event.upload.subject, Milliseconds(event.occurredAt),
                try JSONText(StoredEvent(event)), event.delivery?.state.rawValue,
            ]
        )
        if let date = event.delivery?.nextAttemptAt { try schedule(upload, at: date) }
    }

    /// Makes the first pending event of an upload due, at `date` if it was not before, and lets the others wait for it.
    fileprivate func schedule(_ upload: String, at date: Date) throws {
        try run(
            """
            UPDATE event INDEXED BY event_pending_by_upload SET next_attempt_at = CASE
                WHEN sequence = (SELECT min(sequence) FROM event WHERE upload_id = ?1 AND delivery = 'pending')
                    THEN coalesce(next_attempt_at, ?2)
            END
            WHERE upload_id = ?1 AND delivery = 'pending'
            """,
            [upload, Milliseconds(date)]
        )
    }
}
