package import Foundation
internal import GRDB
internal import StateRecords
internal import Synchronization
package import UploadModel

extension SQLiteState {
    package func record(_ event: EventRecord) async throws(UploadError) {
        try await write { [self] database in
            guard event.kind == .progress else { return try recording.insert(event, in: database) }
            let upload = event.upload.id.text
            let last: Int64? = try database.row(
                "SELECT max(sequence) AS last FROM event WHERE upload_id = ?",
                [upload]
            )?.optional("last", of: "event")
            // An event that is being delivered is not replaced.
            guard let last, deliveryClaims.withLock({ $0.end(of: last, at: clock.now) }) == nil else {
                return try recording.insert(event, in: database)
            }
            try database.run(
                """
                UPDATE event SET content = ?, occurred_at = ?
                WHERE sequence = ? AND kind = 'progress' AND delivery = 'pending' AND attempts = 0
                """,
                [try StoredEvent.json(event), Milliseconds(event.occurredAt), last]
            )
            if database.changesCount == 0 { try recording.insert(event, in: database) }
        }
    }

    package func events(_ query: EventQuery) async throws(UploadError) -> [EventRecord] {
        try await read { database in
            let (sql, arguments) = Self.statement(of: query)
            return try database.rows(sql, arguments).map(EventRecord.init(row:))
        }
    }

    /// Reads events of one upload by their index, and others in table order.
    static func statement(of query: EventQuery) -> (sql: String, arguments: SQLiteArguments) {
        var filter = ""
        var arguments: SQLiteArguments = [query.after]
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
            arguments += SQLiteArguments(kinds.map(\.rawValue))
        }
        arguments += [query.limit]
        let index = query.upload == nil ? "" : "INDEXED BY event_by_upload "
        return ("SELECT * FROM event \(index)WHERE sequence > ?\(filter) ORDER BY sequence LIMIT ?", arguments)
    }

    package func lastEvent() async throws(UploadError) -> Int64 {
        try await read { database in
            // Also correct if the newest events were removed: sequence numbers are never reused.
            try Int64.fetchOne(database, sql: "SELECT seq FROM sqlite_sequence WHERE name = 'event'") ?? 0
        }
    }

    package func keepEvents(until end: Date, at now: Date) async throws(UploadError) {
        try await write { [recording] database in
            try recording.keep(until: Milliseconds(end).value, at: Milliseconds(now).value, in: database)
        }
    }

    package func eventsKeptSince() async throws(UploadError) -> Int64 {
        try await read { database in
            let row = try database.row("SELECT complete_after FROM event_recording")
            return try row?.value("complete_after", of: "event_recording") ?? 0
        }
    }

    package func eventCount() async throws(UploadError) -> Int64 { try await lastEvent() + recording.omittedCount }

    package func claimDeliveries(limit: Int, for duration: TimeInterval) async throws(UploadError) -> [EventRecord] {
        // Others may be due behind those that cannot be read, which keep no writer waiting meanwhile.
        while true {
            if let events = try await claimNextDeliveries(limit, for: duration) { return events }
        }
    }

    /// - Returns: `nil` if there were only events that cannot be read.
    private func claimNextDeliveries(_ limit: Int, for duration: TimeInterval) async throws(UploadError)
        -> [EventRecord]?
    {
        // Writes nothing, but a write transaction orders this against concurrent settlements.
        try await writeOnce { [self] database in
            let now = clock.now
            let oldest = try dueEvents(
                "SELECT sequence FROM event INDEXED BY event_due WHERE next_attempt_at <= ? ORDER BY next_attempt_at, sequence LIMIT ?",
                [Milliseconds(now)],
                limit + 1,
                at: now,
                in: database
            )
            let chosen = oldest.count <= limit ? oldest : try inTurns(oldest, limit, at: now, in: database)
            let rows = try chosen.compactMap { sequence in
                try database.row("SELECT * FROM event WHERE sequence = ?", [sequence]).map {
                    (sequence: sequence, row: $0)
                }
            }
            let events = claim(rows, until: now.addingTimeInterval(duration), at: now)
            return events.isEmpty && !rows.isEmpty ? nil : events
        }
    }

    /// Claims events; those that cannot be read are claimed for nobody, ever longer.
    private func claim(_ rows: [(sequence: Int64, row: StoredRow)], until end: Date, at now: Date) -> [EventRecord] {
        deliveryClaims.withLock { claims in
            rows.compactMap { sequence, row in
                guard var event = try? EventRecord(row: row) else {
                    let pause = unreadable.pause("event", String(sequence))
                    _ = claims.take(sequence, until: now.addingTimeInterval(pause))
                    return nil
                }
                _ = claims.take(sequence, until: end)
                event.delivery?.nextAttemptAt = end
                return event
            }
        }
    }

    /// Events of a statement that are not claimed.
    ///
    /// - Parameters:
    ///   - sql: Selects the sequence numbers of due events; its last argument is their maximum number.
    ///   - arguments: The others.
    ///   - limit: The number of events wanted.
    ///   - now: Until when they are due.
    ///   - database: Where.
    /// - Returns: The sequence numbers.
    /// - Throws: An error of the database.
    private func dueEvents(
        _ sql: String,
        _ arguments: SQLiteArguments,
        _ limit: Int,
        at now: Date,
        in database: Database
    ) throws -> [Int64] {
        var arguments = arguments
        arguments += [limit + deliveryClaims.withLock { $0.count }]
        let found: [Int64] = try database.rows(sql, arguments).map { try $0.value("sequence", of: "event") }
        return deliveryClaims.withLock { claims in
            Array(found.filter { claims.end(of: $0, at: now) == nil }.prefix(limit))
        }
    }

    /// Due events of the users whose turn it is.
    private func inTurns(_ oldest: [Int64], _ limit: Int, at now: Date, in database: Database) throws -> [Int64] {
        let first = lastDeliveryTurn.withLock { $0 }
        var position: String? = first
        var isLastRound = false
        var queues: [[Int64]] = []
        for _ in 0..<DeliveryTurns.mostUsers(for: limit) where queues.count < limit {
            guard let user = try database.userOfDeliveries(after: position, through: isLastRound ? first : nil) else {
                if isLastRound { break }
                (position, isLastRound) = (nil, true)
                continue
            }
            position = user
            let due = try dueEvents(
                """
                SELECT sequence FROM event INDEXED BY event_due_by_user
                WHERE coalesce(subject, '') = ? AND next_attempt_at <= ? ORDER BY next_attempt_at, sequence LIMIT ?
                """,
                [user, Milliseconds(now)],
                limit,
                at: now,
                in: database
            )
            if !due.isEmpty { queues.append(due) }
        }
        let last = position ?? first
        lastDeliveryTurn.withLock { $0 = last }
        return DeliveryTurns.choose(limit, of: queues, else: oldest)
    }

    package func nextDelivery() async throws(UploadError) -> TimeInterval? {
        try await read { [self] database in
            let now = clock.now
            let first = try database.rows(
                """
                SELECT sequence, next_attempt_at FROM event INDEXED BY event_due
                WHERE next_attempt_at IS NOT NULL ORDER BY next_attempt_at LIMIT ?
                """,
                [1 + deliveryClaims.withLock { $0.count }]
            )
            return try first.map { row in
                let due = try row.date("next_attempt_at", of: "event")
                let sequence: Int64 = try row.value("sequence", of: "event")
                return max(due, deliveryClaims.withLock { $0.end(of: sequence, at: now) } ?? due)
            }.min()?.timeIntervalSince(now)
        }
    }

    package func pendingDeliveries() async throws(UploadError) -> PendingDeliveries {
        try await read { [self] database in
            let row = try database.row(
                """
                SELECT count(*) AS number, (
                    SELECT occurred_at FROM event WHERE sequence = (
                        SELECT min(sequence) FROM event INDEXED BY event_pending_by_upload WHERE delivery = 'pending'
                    )
                ) AS occurred_at
                FROM event INDEXED BY event_pending_by_upload WHERE delivery = 'pending'
                """
            )
            guard let row else { return PendingDeliveries(count: 0, age: 0) }
            let count: Int64 = try row.value("number", of: "event")
            if count == 0 { return PendingDeliveries(count: 0, age: 0) }
            let age = clock.now.timeIntervalSince(try row.date("occurred_at", of: "event"))
            return PendingDeliveries(count: count, age: max(0, age))
        }
    }

    package func settle(_ event: EventRecord, as outcome: DeliveryOutcome) async throws(UploadError) {
        let sequence = event.sequence
        try await write(.little) { [self] database in
            let isHeld = deliveryClaims.withLock { $0.holds(sequence, until: event.delivery?.nextAttemptAt) }
            guard isHeld || outcome == .delivered else { return }
            let now = clock.now
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
            case .retry(let seconds, let error):
                let date = now.addingTimeInterval(seconds)
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
            try database.schedule(event.upload.id.text, at: now)
        }
        // Only after the commit: otherwise an outcome that could not be recorded would be delivered again at once.
        deliveryClaims.withLock { claims in
            let isHeld = claims.holds(sequence, until: event.delivery?.nextAttemptAt)
            if isHeld || outcome == .delivered { claims.drop(sequence) }
        }
    }

    package func release(_ event: EventRecord) async throws(UploadError) {
        deliveryClaims.withLock { claims in
            if claims.holds(event.sequence, until: event.delivery?.nextAttemptAt) { claims.drop(event.sequence) }
        }
    }

    package func deliveries(_ query: DeliveryQuery) async throws(UploadError) -> [EventRecord] {
        try await read { database in
            var filter = "delivery IS NOT NULL"
            var arguments = SQLiteArguments()
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

    package func redeliver(_ ids: [String]?) async throws(UploadError) -> Int {
        try await write { [self] database in
            let now = clock.now
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
                deliveryClaims.withLock { $0.drop(sequence) }
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
                try StoredEvent.json(event), event.delivery?.state.rawValue,
            ]
        )
        if let date = event.delivery?.nextAttemptAt { try schedule(upload, at: date) }
    }

    /// The next user who has deliveries to come.
    ///
    /// - Parameters:
    ///   - last: The one before; `nil` to begin with those without a user.
    ///   - end: Where to stop.
    /// - Returns: `DeliveryTurns.noUser` for those without.
    /// - Throws: An error of the database.
    fileprivate func userOfDeliveries(after last: String?, through end: String?) throws -> String? {
        var arguments: SQLiteArguments = [last ?? DeliveryTurns.noUser]
        if let end { arguments += [end] }
        return try row(
            """
            SELECT coalesce(subject, '') AS user FROM event INDEXED BY event_due_by_user
            WHERE next_attempt_at IS NOT NULL AND coalesce(subject, '') \(last == nil ? ">=" : ">") ?
                \(end == nil ? "" : "AND coalesce(subject, '') <= ?")
            ORDER BY coalesce(subject, '') LIMIT 1
            """,
            arguments
        ).map { try $0.value("user", of: "event") }
    }

    /// Makes the first pending event of an upload due at `date`, unless it is already due; later events wait for it.
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
