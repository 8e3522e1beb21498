package import Foundation
internal import StateRecords
internal import Synchronization
package import UploadModel

/// Which events are recorded: those that a hook receives, and all others while something wants them.
///
/// The nodes agree by the row of `event_recording`. A statement that adds an event reads it, and leaves the event out
/// (`Connection.insert`). All times are of the clock of the database.
extension PostgresState {
    package func keepEvents(until end: Date, at now: Date) async throws(UploadError) {
        let duration = Self.milliseconds(end.timeIntervalSince(now))
        guard let time = try await write({ try $0.keepEvents(for: duration) }) else { return }
        try await waitForRecorders()
        // Events that hooks received in a pause get their numbers before the one that stands for the others.
        try await numberEvents()
        try await write { try $0.agreeToKeepEvents(until: time) }
    }

    package func eventsKeptSince() async throws(UploadError) -> Int64 {
        try await read { connection in
            let row = try connection.row("SELECT complete_after FROM event_recording")
            return try row?.value("complete_after", of: "event_recording") ?? 0
        }
    }

    package func eventCount() async throws(UploadError) -> Int64 {
        try await lastEvent() + omittedEvents.load(ordering: .relaxed)
    }

    /// Waits for the end of all transactions that may have left out an event although it is wanted by now.
    ///
    /// - Throws: `.unavailable` if one of them does not end: the server ends that of a frozen node only after a minute.
    private func waitForRecorders() async throws(UploadError) {
        let deadline = ContinuousClock.now + lockTimeout
        var recorders = try await read { try $0.recorders() }
        while !recorders.isEmpty {
            guard ContinuousClock.now < deadline, (try? await Task.sleep(for: .milliseconds(5))) != nil else {
                throw UploadError(.unavailable, "The database is in use; try again.")
            }
            recorders.formIntersection(try await read { try $0.recorders() })
        }
    }
}

extension Connection {
    /// Makes all transactions that begin later record all events for `duration`, in milliseconds.
    ///
    /// - Returns: Until when they do, unless all running ones do so too.
    /// - Throws: `DatabaseFailure`.
    fileprivate func keepEvents(for duration: Int64) throws -> Int64? {
        send(
            "UPDATE event_recording SET kept_until = \(Self.now) + $1::bigint WHERE kept_until < \(Self.now) + $1::bigint",
            [duration]
        )
        let row = try row("SELECT kept_until, agreed_until < kept_until AS is_open FROM event_recording")
        return row?.flag("is_open") == false ? nil : try row?.value("kept_until", of: "event_recording")
    }

    /// The transactions that have added events, or left some out, and run now.
    ///
    /// A statement that adds events has locked the table before it reads which events are wanted. Who only reads the table, as
    /// a backup does, has another lock.
    fileprivate func recorders() throws -> Set<String> {
        let rows = try rows(
            """
            SELECT virtualtransaction AS id FROM pg_locks
            WHERE locktype = 'relation' AND relation = 'unnumbered_event'::regclass AND mode = 'RowExclusiveLock' AND granted
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
            """
        )
        return Set(rows.compactMap { $0.text("id") })
    }

    /// Ends the pause, if there was one: events that were left out until now get a sequence number that no event has.
    ///
    /// - Parameter time: A time that all running transactions know.
    /// - Throws: `DatabaseFailure`.
    fileprivate func agreeToKeepEvents(until time: Int64) throws {
        send("SELECT FROM event_recording FOR UPDATE")
        let row = try row(
            """
            SELECT agreed_until <= \(Self.clock) AS was_paused,
                -- In a new database there was nothing to leave out.
                (SELECT last FROM event_counter) > 0 OR EXISTS (SELECT FROM upload) AS is_used
            FROM event_recording
            """
        )
        if row?.flag("was_paused") == true, row?.flag("is_used") == true {
            send("UPDATE event_counter SET last = last + 1")
            send("UPDATE event_recording SET complete_after = (SELECT last FROM event_counter)")
        }
        send("UPDATE event_recording SET agreed_until = greatest(agreed_until, $1)", [time])
    }

    /// The time in Unix milliseconds, by the server's clock.
    private static let clock = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
}
