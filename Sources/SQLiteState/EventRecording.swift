internal import GRDB
internal import StateRecords
internal import Synchronization
internal import UploadModel

/// Decides which events are recorded: those that a hook receives, and all others while something wants them.
///
/// An event that nothing will read costs more than its upload: a row with a copy of the upload, and its entries in the indexes.
final class EventRecording: Sendable {
    /// All events before it are recorded; Unix milliseconds.
    ///
    /// Changed only in write transactions, so that each transaction after the one that changed it sees it.
    private let end: Atomic<Int64>
    private let omitted = Atomic<Int64>(0)

    /// - Parameter database: Read once.
    /// - Throws: An error of SQLite.
    init(_ database: Database) throws {
        let row = try database.row("SELECT kept_until FROM event_recording")
        end = Atomic(try row?.value("kept_until", of: "event_recording") ?? 0)
    }

    /// The number of events that this process has left out.
    var omittedCount: Int64 { omitted.load(ordering: .relaxed) }

    func insert(_ event: EventRecord, in database: Database) throws {
        guard event.delivery != nil || Milliseconds(event.occurredAt).value < end.load(ordering: .relaxed) else {
            omitted.add(1, ordering: .relaxed)
            return
        }
        try database.insert(event)
    }

    /// Records all events before `end`; see `EventRecords.keepEvents`.
    ///
    /// - Parameters:
    ///   - end: Unix milliseconds.
    ///   - now: Unix milliseconds.
    ///   - database: In a write transaction.
    /// - Throws: An error of SQLite.
    func keep(until end: Int64, at now: Int64, in database: Database) throws {
        let row = try database.row("SELECT kept_until FROM event_recording")
        let before: Int64 = try row?.value("kept_until", of: "event_recording") ?? 0
        // The row decides, and not what this process remembers: the transaction that changed that may have failed.
        if before <= now { try skipNumber(in: database) }
        try database.run("UPDATE event_recording SET kept_until = ?", [max(before, end)])
        self.end.store(max(before, end), ordering: .relaxed)
    }

    /// Gives the events that may have been left out a number of their own.
    private func skipNumber(in database: Database) throws {
        // In a new database there was nothing to leave out.
        let isUsed = try database.row(
            "SELECT 1 FROM upload UNION ALL SELECT 1 FROM sqlite_sequence WHERE name = 'event' AND seq > 0 LIMIT 1"
        )
        guard isUsed != nil else { return }
        try database.run("UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'event'")
        if database.changesCount == 0 {
            try database.run("INSERT INTO sqlite_sequence (name, seq) VALUES ('event', 1)")
        }
        try database.run(
            "UPDATE event_recording SET complete_after = (SELECT seq FROM sqlite_sequence WHERE name = 'event')"
        )
    }
}
