package import Foundation
internal import Synchronization
internal import UploadModel

/// The clock of the database server, which is the same for all nodes.
///
/// It is read periodically; in between, the time is extrapolated with this machine's monotonic clock. The local wall
/// clock therefore does not matter.
package final class DatabaseClock: WallClock {
    private struct Reading {
        let time: Date
        let at: ContinuousClock.Instant
        /// Maximum error.
        let uncertainty: Duration
    }

    private let reading = Mutex<Reading?>(nil)

    /// The local time until the server was first asked.
    package var now: Date {
        guard let reading = reading.withLock({ $0 }) else { return Date() }
        return reading.time.addingTimeInterval((ContinuousClock.now - reading.at) / .seconds(1))
    }

    /// Reads the server's clock if the last reading is old.
    ///
    /// - Throws: The error of the server.
    func set(by connection: Connection) throws(DatabaseFailure) {
        let begin = ContinuousClock.now
        if let last = reading.withLock({ $0 }), begin - last.at < Self.interval { return }
        let row = try connection.row("SELECT \(Connection.now) AS time")
        connection.roundTrips -= 1
        guard let milliseconds = row?.integer("time") else { return }
        let trip = ContinuousClock.now - begin
        let time = Date(timeIntervalSince1970: Double(milliseconds) / 1000)
        let new = Reading(time: time, at: begin + trip / 2, uncertainty: trip / 2)
        reading.withLock { reading in
            // A slow response is less precise than an older reading; but old readings expire, because the server's
            // clock may be set.
            if let old = reading, old.uncertainty * 4 < trip, begin - old.at < Self.interval * 6 { return }
            reading = new
        }
    }

    /// Interval between two readings.
    private static let interval = Duration.seconds(10)
}
