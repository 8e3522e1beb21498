package import Foundation

/// Events of uploads, ordered by sequence number.
///
/// Events that a hook receives are always recorded. A store may leave out all others, except while `keepEvents` asks for them.
package protocol EventRecords: Sendable {
    /// Records an event on its own; a progress event replaces an undelivered one if that is the last event of its
    /// upload.
    func record(_ event: EventRecord) async throws(UploadError)

    func events(_ query: EventQuery) async throws(UploadError) -> [EventRecord]

    /// The sequence number of the newest event, or 0.
    func lastEvent() async throws(UploadError) -> Int64

    /// Records all events from now until `end`, or until the latest `end` of earlier calls.
    ///
    /// If events may have been left out before this call, they also get a sequence number, together one, which no event has:
    /// so a client that has seen the last event before them can be told apart from one that has seen all.
    ///
    /// When this returns, no transaction runs that leaves out an event before `end`.
    ///
    /// - Parameters:
    ///   - end: By the clock that `EventRecord.occurredAt` is taken from. A store with a clock of its own counts from now.
    ///   - now: The time by the same clock.
    /// - Throws: `.storageFull`, `.storageFailure`, `.unavailable`.
    func keepEvents(until end: Date, at now: Date) async throws(UploadError)

    /// The sequence number after which no event was left out, up to now if `keepEvents` lasts.
    func eventsKeptSince() async throws(UploadError) -> Int64

    /// A number that grows with each event, recorded or left out; comparable only within one process.
    func eventCount() async throws(UploadError) -> Int64
}

/// For stores that record every event.
extension EventRecords {
    package func keepEvents(until end: Date, at now: Date) async throws(UploadError) {}

    package func eventsKeptSince() async throws(UploadError) -> Int64 { 0 }

    package func eventCount() async throws(UploadError) -> Int64 { try await lastEvent() }
}
