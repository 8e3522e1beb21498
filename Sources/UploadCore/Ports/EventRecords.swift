/// Events of uploads, ordered by sequence number.
package protocol EventRecords: Sendable {
    /// Records an event on its own; a progress event replaces an undelivered one if that is the last event of its
    /// upload.
    func record(_ event: EventRecord) async throws(UploadError)

    func events(_ query: EventQuery) async throws(UploadError) -> [EventRecord]

    /// The sequence number of the newest event, or 0.
    func lastEvent() async throws(UploadError) -> Int64
}
