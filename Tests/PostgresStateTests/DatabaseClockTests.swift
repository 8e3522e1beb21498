import Foundation
import Testing

@testable import PostgresState

@Suite("The clock of the database server", .timeLimit(.minutes(10)))
struct DatabaseClockTests {
    @Test("a node is never ahead of the server, and says how far it may be behind", arguments: [0, 1, 300, 5000])
    func bounds(milliseconds: Int64) {
        let asked = ContinuousClock.now
        let answered = asked + .milliseconds(milliseconds)
        let said = Date(timeIntervalSince1970: 1_000_000)
        let reading = DatabaseClock.Reading(time: said, asked: asked, answered: answered)
        let later = answered + .seconds(7)
        // The server said it when the question came, when the answer left, or between.
        for delay in [0, milliseconds / 2, milliseconds] {
            let truth = said.addingTimeInterval((later - (asked + .milliseconds(delay))) / .seconds(1))
            let ahead = reading.time(at: later).timeIntervalSince(truth)
            #expect(ahead <= 1e-6 && ahead >= -(reading.uncertainty / .seconds(1)) - 1e-6)
        }
    }
}
