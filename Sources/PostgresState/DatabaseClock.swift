package import Foundation
internal import Synchronization
internal import UploadCore

/// The time of the database's server, which is one for all nodes.
///
/// It is asked for now and then, and counted on from there by a clock of this machine that nobody sets, so it does not matter
/// what time this machine believes it is.
package final class DatabaseClock: WallClock {
    private struct Reading {
        let time: Date
        let at: ContinuousClock.Instant
        /// How wrong it may be at most.
        let uncertainty: Duration
    }

    private let reading = Mutex<Reading?>(nil)

    /// That of this machine until the server was asked.
    package var now: Date {
        guard let reading = reading.withLock({ $0 }) else { return Date() }
        return reading.time.addingTimeInterval((ContinuousClock.now - reading.at) / .seconds(1))
    }

    /// Asks the server, if that was not done for a while.
    ///
    /// - Throws: What the server says.
    func set(by connection: Connection) throws(DatabaseFailure) {
        let begin = ContinuousClock.now
        if let last = reading.withLock({ $0 }), begin - last.at < Self.interval { return }
        let row = try connection.row("SELECT \(Connection.now) AS time")
        guard let milliseconds = row?.integer("time") else { return }
        let trip = ContinuousClock.now - begin
        let time = Date(timeIntervalSince1970: Double(milliseconds) / 1000)
        let new = Reading(time: time, at: begin + trip / 2, uncertainty: trip / 2)
        reading.withLock { reading in
            // An answer that took long tells less than an older one; but not for ever, as the server's clock may be set.
            if let old = reading, old.uncertainty * 4 < trip, begin - old.at < Self.interval * 6 { return }
            reading = new
        }
    }

    /// Between two looks.
    private static let interval = Duration.seconds(10)
}
