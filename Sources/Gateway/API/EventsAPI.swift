internal import Bytes
internal import HTTPServer
internal import HTTPWire
internal import UploadCore

/// `/v1/events` and `/v1/uploads/{id}/events`: what happens to uploads, as it happens.
struct EventsAPI: Sendable {
    let service: UploadService
    let feed: EventFeed
    let names: UploadNames
    let access: Access
    let urls: UploadURLs
    let watch: StreamWatch

    var routes: [Route] {
        [
            Route(.get, "/v1/events") { request, _ in
                await answering(request) { () throws(Problem) in try await all(request) }
            },
            Route(.get, "/v1/uploads/{id}/events") { request, parameters in
                await answering(request) { () throws(Problem) in try await one(request, parameters["id"]) }
            },
        ]
    }

    private func all(_ request: Request) async throws(Problem) -> Response {
        let key = try await access.limitedKey(.read, request)
        let parameters = try QueryParameters(request, allowed: ["subject", "types", "upload", "lastEventId"])
        var errors: [Problem.FieldError] = []
        var filter = EventFilter()
        filter.subject = parameters.subject(&errors)
        let types = EventRecord.Kind.allCases.map { (text: $0.eventName, value: $0) }
        if let kinds = parameters.list("types", of: types, &errors).map(Set.init) {
            filter.kinds = kinds.intersection(EventFilter.recorded)
            filter.hasProgress = kinds.contains(.progress)
        }
        let place = Place(request, parameters, &errors)
        if !errors.isEmpty { throw Problem.invalidFields(errors) }
        filter.subject = try access.listedSubject(key, filter.subject)
        if let upload = parameters["upload"] { filter.upload = try await names.id(upload, within: key.limits) }
        let start = try await start(from: place)
        let opening = EventText.notice(start.isReset ? "reset" : "ready", at: service.now, sequence: start.sequence)
        return answer(stream(filter, holder(of: key), endsWithUpload: false), opening, after: start.sequence)
    }

    private func one(_ request: Request, _ text: String) async throws(Problem) -> Response {
        // A browser's EventSource can send no credential, so the URL of the upload is one here as well.
        let credential = names.credential(text)
        let key = credential == nil ? try await access.limitedKey(.read, request) : nil
        if let credential { try await access.core { () throws(UploadError) in try await urls.check(credential) } }
        let parameters = try QueryParameters(request, allowed: ["lastEventId"])
        var errors: [Problem.FieldError] = []
        let place = Place(request, parameters, &errors)
        if !errors.isEmpty { throw Problem.invalidFields(errors) }
        let id =
            if let credential { credential } else { try await names.id(text, within: key?.limits ?? KeyLimits()) }
        let start = try await start(from: place)
        var newest = start.isReset ? start.sequence : try await newestEvent()
        var missed = try await missedEvents(of: id, place, isReset: start.isReset)
        // After the events: it has what they tell, and what it has beyond that follows as an event.
        let upload = try await access.core { () throws(UploadError) in try await service.inspect(id) }
        // Its end may have come between the two.
        if upload.state != .open, missed?.isEmpty == true {
            missed = try await missedEvents(of: id, place, isReset: start.isReset)
        }
        if upload.state != .open, missed?.isEmpty == true {
            // It has heard of the end; with this answer an EventSource comes back no more (WHATWG HTML §9.2.2).
            var response = Response(204, ["Cache-Control": "no-store"])
            response.trace.uploadID = id.text
            return response
        }
        var filter = EventFilter()
        filter.upload = id
        var opening: [UInt8] = []
        if start.isReset { opening = EventText.notice("reset", at: service.now, sequence: start.sequence) }
        for event in missed ?? [] {
            opening += EventText.event(event)
            newest = max(newest, event.sequence)
        }
        opening += EventText.snapshot(upload, at: service.now, sequence: newest)
        let holder = if let key { holder(of: key) } else { urls.holder(of: upload) }
        let stream = stream(filter, holder, endsWithUpload: true)
        var response = answer(upload.state == .open ? stream : nil, opening, after: newest)
        response.trace.uploadID = id.text
        return response
    }

    // MARK: Where a stream begins

    /// What the client says of where it was.
    private enum Place {
        case now
        case after(Int64)
        /// An id that no event of this server has.
        case unknown

        /// The field is of the client that comes back, the parameter of who has no fields or comes for the first time.
        init(_ request: Request, _ parameters: QueryParameters, _ errors: inout [Problem.FieldError]) {
            if let text = request.head.fields["Last-Event-ID"], !text.isEmpty {
                self = Self.sequence(text).map(Place.after) ?? .unknown
            } else if let text = parameters["lastEventId"] {
                if Self.sequence(text) == nil {
                    errors.append(.init(field: "lastEventId", message: "must be the id of an event, or 0 for all"))
                }
                self = Self.sequence(text).map(Place.after) ?? .unknown
            } else {
                self = .now
            }
        }

        private static func sequence(_ text: String) -> Int64? {
            guard !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
            return Int64(text)
        }
    }

    /// After which event the stream begins, and whether the client has missed some before.
    private func start(from place: Place) async throws(Problem) -> (sequence: Int64, isReset: Bool) {
        switch place {
        case .now: return (try await newestEvent(), false)
        case .unknown: return (try await newestEvent(), true)
        case .after(let sequence):
            let isKept = try await access.core { () throws(UploadError) in
                try await service.keepsEvents(after: sequence)
            }
            return isKept ? (sequence, false) : (try await newestEvent(), true)
        }
    }

    /// What a client that comes back has missed of an upload; `nil` for one that does not come back, or missed what is not kept.
    private func missedEvents(
        of id: UploadID,
        _ place: Place,
        isReset: Bool
    ) async throws(Problem) -> [EventRecord]? {
        guard case .after(let sequence) = place, !isReset else { return nil }
        let query = EventQuery(after: sequence, upload: id, kinds: EventFilter.recorded, limit: Self.mostMissed)
        return try await access.core { () throws(UploadError) in try await service.events(query) }
    }

    private func newestEvent() async throws(Problem) -> Int64 {
        try await access.core { () throws(UploadError) in try await service.lastEvent() }
    }

    // MARK: The answer

    private func stream(
        _ filter: EventFilter,
        _ holder: StreamWatch.Holder?,
        endsWithUpload: Bool
    ) -> EventStream {
        EventStream(
            service: service,
            feed: feed,
            filter: filter,
            endsWithUpload: endsWithUpload,
            watch: watch,
            holder: holder
        )
    }

    private func holder(of key: APIKey) -> StreamWatch.Holder { .key(id: key.id, expiresAt: key.expiresAt) }

    /// The client gets `opening` at once, and then what happens after `sequence`, if there is a stream.
    private func answer(_ stream: EventStream?, _ opening: [UInt8], after sequence: Int64) -> Response {
        Response(
            200,
            [
                "Content-Type": "text/event-stream",
                "Cache-Control": "no-store",
                // nginx would collect what is sent.
                "X-Accel-Buffering": "no",
            ],
            .stream(length: nil) { sink in
                try await sink.write(opening)
                try await stream?.run(into: sink, after: sequence)
                return HTTPFields()
            }
        )
    }

    /// Events of one upload that a client is told which comes back; there are a handful, unless somebody edits it all the
    /// time: the rest is in the snapshot.
    private static let mostMissed = 100
}
