internal import Bytes
internal import HTTPWire
internal import UploadCore
internal import UploadModel

/// One listening client.
struct EventStream: Sendable {
    let service: EventService
    let feed: EventFeed
    let filter: EventFilter
    /// Whether the stream follows one upload and ends with it.
    let endsWithUpload: Bool
    /// Ends the stream when its credential becomes invalid, if it can.
    let watch: StreamWatch
    let holder: StreamWatch.Holder?

    /// Delivers events until the client disconnects, the server stops or, if requested, the upload ends.
    ///
    /// - Parameters:
    ///   - sink: The response content.
    ///   - sequence: Only later events are sent.
    /// - Throws: If the client disconnects or accepts nothing for too long, or the state cannot be read; the client
    ///   will reconnect.
    func run(into sink: any ByteSink, after sequence: Int64) async throws {
        let id = try await feed.open(filter, after: sequence)
        defer { feed.close(id) }
        sink.whenGone { [feed] in feed.end(id) }
        try await watch.watching(holder) { [feed] in
            feed.end(id)
        } _: {
            try await send(id, sink)
        }
    }

    private func send(_ id: EventFeed.ListenerID, _ sink: any ByteSink) async throws {
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

    /// Sends a page of events that are no longer in memory.
    ///
    /// - Returns: Whether the stream has ended with it.
    private func catchUp(
        _ id: EventFeed.ListenerID,
        _ after: Int64,
        _ through: Int64,
        _ sink: any ByteSink
    ) async throws -> Bool {
        // A filter may skip very many events, and one read must stay short.
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
