package import Foundation
internal import StateRecords
internal import Synchronization
internal import UploadModel

/// The clock of the database server, which is the same for all nodes.
///
/// It is read periodically; in between, the time is extrapolated with this machine's monotonic clock. The local wall
/// clock therefore does not matter.
package final class DatabaseClock: WallClock {
    /// What the server said, some time between question and answer.
    struct Reading {
        let time: Date
        let asked: ContinuousClock.Instant
        let answered: ContinuousClock.Instant

        /// Maximum error.
        var uncertainty: Duration { answered - asked }

        /// The earliest time that it can be on the server.
        func time(at instant: ContinuousClock.Instant) -> Date {
            time.addingTimeInterval((instant - answered) / .seconds(1))
        }
    }

    private let reading = Mutex<Reading?>(nil)

    /// The local time until the server was first asked.
    ///
    /// Never ahead of the server's: what one node mints would otherwise seem to be newer than a revocation that another one
    /// makes right after.
    package var now: Date { reading.withLock { $0 }?.time(at: .now) ?? Date() }

    package var lag: TimeInterval {
        // The server says whole milliseconds.
        reading.withLock { $0 }.map { $0.uncertainty / .seconds(1) + 0.001 } ?? 0
    }

    /// Reads the server's clock if the last reading is old.
    ///
    /// - Throws: The error of the server.
    func set(by connection: Connection) throws(DatabaseFailure) {
        let begin = ContinuousClock.now
        if let last = reading.withLock({ $0 }), begin - last.answered < Self.interval { return }
        let row = try connection.row("SELECT \(Connection.now) AS time")
        connection.roundTrips -= 1
        guard let milliseconds = row?.integer("time") else { return }
        let time = Date(timeIntervalSince1970: Double(milliseconds) / 1000)
        let new = Reading(time: time, asked: begin, answered: .now)
        reading.withLock { reading in
            // A slow response is less precise than an older reading; but old readings expire, because the server's
            // clock may be set.
            if let old = reading, old.uncertainty * 4 < new.uncertainty,
                begin - old.answered < Self.interval * 6
            {
                return
            }
            reading = new
        }
    }

    /// Interval between two readings.
    private static let interval = Duration.seconds(10)
}
