package import Foundation

/// What a state knows of the events that it does not have, for code that copies the whole state.
package struct EventHistory: Sendable, Equatable {
    /// The sequence number of the newest event that it ever had.
    package var lastEvent: Int64
    /// No event after this sequence number was left out before `keptUntil`.
    package var completeAfter: Int64
    /// Events before this time are recorded, also if no hook receives them.
    package var keptUntil: Date

    package init(lastEvent: Int64, completeAfter: Int64 = 0, keptUntil: Date = .distantPast) {
        self.lastEvent = lastEvent
        self.completeAfter = completeAfter
        self.keptUntil = keptUntil
    }
}
