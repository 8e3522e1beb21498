internal import Bytes
internal import HTTPWire
internal import UploadCore

/// One client that listens.
struct EventStream: Sendable {
    let service: UploadService
    let feed: EventFeed
    let filter: EventFilter
    /// The stream is of one upload, and over with it.
    let endsWithUpload: Bool
    /// Ends the stream with its credential, if that can end.
    let watch: StreamWatch
    let holder: StreamWatch.Holder?

    /// Tells what happens until the client goes away, the server stops or, where that is asked for, the upload has ended.
    ///
    /// - Parameters:
    ///   - sink: Where the client reads.
    ///   - sequence: Only later events are told.
    /// - Throws: When the client takes nothing for too long or goes away, or when the state can not be read; it comes back.
    func run(into sink: any ByteSink, after sequence: Int64) async throws {
        let id = try await feed.open(filter, after: sequence)
        defer { feed.close(id) }
        sink.whenGone { [feed] in feed.end(id) }
        try await watch.watching(holder) { [feed] in
            feed.end(id)
        } _: {
            try await tell(id, sink)
        }
    }

    private func tell(_ id: EventFeed.ListenerID, _ sink: any ByteSink) async throws {
        while true {
            switch await feed.next(id) {
            case .text(let text, let endsUpload):
                try await sink.write(text)
                if endsUpload, endsWithUpload { return }
            case .quiet: try await sink.write(ServerSentEvent.comment("keep-alive"))
            case .behind(let after, let through):
                if try await catchUp(id, after, through, sink) { return }
            case .over: return
            }
        }
    }

    /// Tells a page of the events that are no longer in memory.
    ///
    /// - Returns: Whether the stream is over with it.
    private func catchUp(
        _ id: EventFeed.ListenerID,
        _ after: Int64,
        _ through: Int64,
        _ sink: any ByteSink
    ) async throws -> Bool {
        // A filter may skip very many, and nobody shall read for long at once.
        let end = min(through, after + Self.longestRead)
        let query = EventQuery(
            after: after,
            through: end,
            upload: filter.upload,
            subject: filter.subject,
            kinds: filter.kinds,
            limit: Self.pageSize
        )
        let page = try await service.events(query)
        var text: [UInt8] = []
        for event in page { text += EventText.event(event) }
        try await sink.write(text)
        feed.advance(id, to: page.count < Self.pageSize ? end : page.last?.sequence ?? end)
        return endsWithUpload && page.contains { $0.kind.endsUpload }
    }

    private static let longestRead: Int64 = 20_000
    private static let pageSize = 50
}
