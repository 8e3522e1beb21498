internal import Bytes
internal import Foundation
internal import HTTPWire
internal import RESTKit
internal import UploadCore
internal import UploadModel

/// `/v1/events` and `/v1/uploads/{id}/events`: live upload events.
struct EventsAPI: Sendable {
    let service: EventService
    let uploads: UploadService
    let feed: EventFeed
    let names: UploadNames
    let access: Access
    let urls: UploadURLs
    let watch: StreamWatch

    var routes: [Route] {
        [
            Route(.get, "/v1/events") { request, _ in
                await responding(request) { () throws(Problem) in try await all(request) }
            },
            Route(.get, "/v1/uploads/{id}/events") { request, parameters in
                await responding(request) { () throws(Problem) in try await one(request, parameters["id"]) }
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
        return response(stream(filter, holder(of: key, request), endsWithUpload: false), opening, after: start.sequence)
    }

    private func one(_ request: Request, _ text: String) async throws(Problem) -> Response {
        // A browser's EventSource cannot send credentials, so the upload URL is accepted as one here.
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
        // Read after the events: it includes them, and anything newer follows as an event.
        let upload = try await access.core { () throws(UploadError) in try await uploads.inspect(id) }
        // The upload may have ended between the two reads.
        if upload.state != .open, missed?.isEmpty == true {
            missed = try await missedEvents(of: id, place, isReset: start.isReset)
        }
        if upload.state != .open, missed?.isEmpty == true {
            // The client has seen the end; this response stops an EventSource from reconnecting (WHATWG HTML §9.2.2).
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
        let holder = if let key { holder(of: key, request) } else { urls.holder(of: upload) }
        let stream = stream(filter, holder, endsWithUpload: true)
        var response = response(upload.state == .open ? stream : nil, opening, after: newest)
        response.trace.uploadID = id.text
        return response
    }

    // MARK: Where a stream begins

    /// The position that the client asks for.
    private enum Place {
        case now
        case after(Int64)
        /// An id that no event of this server has.
        case unknown

        /// The header field is sent on reconnects, the parameter by clients that cannot set fields or connect for the
        /// first time.
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

    /// The event after which the stream begins, and whether the client has missed earlier ones.
    private func start(from place: Place) async throws(Problem) -> (sequence: Int64, isReset: Bool) {
        // First: later events are then recorded, and those that were left out before have a number.
        try await access.core { () throws(UploadError) in try await service.keepEvents() }
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

    /// Events of an upload that a reconnecting client missed; `nil` if it is not reconnecting, or they are no longer
    /// kept.
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

    // MARK: The response

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

    private func holder(of key: APIKey, _ request: Request) -> StreamWatch.Holder {
        guard let user = key.user else {
            let secret = Authenticator.digest(authorization: request.head.fields["Authorization"])
            return .key(id: key.id, expiresAt: key.expiresAt, secret: secret ?? [])
        }
        return .user(
            issuer: key.id,
            subject: key.limits.onlySubject,
            issuedAt: user.issuedAt,
            expiresAt: key.expiresAt ?? .distantFuture
        )
    }

    /// Sends `opening` at once, followed by events after `sequence` if there is a stream.
    private func response(_ stream: EventStream?, _ opening: [UInt8], after sequence: Int64) -> Response {
        Response(
            200,
            [
                "Content-Type": "text/event-stream",
                "Cache-Control": "no-store",
                // nginx would buffer the stream.
                "X-Accel-Buffering": "no",
            ],
            .stream(length: nil) { sink in
                try await sink.write(opening)
                try await stream?.run(into: sink, after: sequence)
                return HTTPFields()
            }
        )
    }

    /// Maximum events of one upload to repeat on reconnect.
    ///
    /// There are usually a handful; with more, the snapshot covers the rest.
    private static let mostMissed = 100
}
