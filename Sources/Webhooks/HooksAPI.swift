internal import Foundation
internal import HTTPWire
internal import RESTKit
internal import UploadModel

/// `/v1/hooks`: deliveries to the app, also failed ones, and their repetition.
struct HooksAPI: Sendable {
    let state: any DeliveryRecords
    let access: Access
    let bodyLimit: Int
    /// Called when deliveries are due again.
    let wake: @Sendable () -> Void

    var routes: [Route] {
        [
            Route(.get, "/v1/hooks/deliveries") { request, _ in
                await responding(request) { () throws(Problem) in try await list(request) }
            },
            Route(.post, "/v1/hooks/redeliveries") { request, _ in
                await responding(request) { () throws(Problem) in try await redeliver(request) }
            },
        ]
    }

    private struct DeliveryView: Encodable {
        var id: String
        var hook: String
        var uploadId: String
        var subject: String?
        var state: String
        var attempts: Int
        var occurredAt: String
        var nextAttemptAt: String?
        var settledAt: String?
        var lastError: String?

        init?(_ event: EventRecord) {
            guard let delivery = event.delivery, let hook = HookName(event.kind) else { return nil }
            id = event.id
            self.hook = hook.rawValue
            uploadId = event.upload.id.text
            subject = event.upload.subject
            state = delivery.state.rawValue
            attempts = delivery.attempts
            occurredAt = JSONResponse.timestamp(event.occurredAt)
            nextAttemptAt = delivery.nextAttemptAt.map(JSONResponse.timestamp)
            settledAt = delivery.settledAt.map(JSONResponse.timestamp)
            lastError = delivery.lastError
        }
    }

    private struct Page: Encodable {
        var deliveries: [DeliveryView]
        var nextCursor: String?
    }

    private func list(_ request: Request) async throws(Problem) -> Response {
        try await access.require(.read, request)
        let parameters = try QueryParameters(request, allowed: ["state", "limit", "cursor"])
        var query = DeliveryQuery()
        var errors: [Problem.FieldError] = []
        if let text = parameters["state"] {
            query.state = EventRecord.Delivery.State(rawValue: text)
            if query.state == nil {
                let allowed = EventRecord.Delivery.State.allCases.map(\.rawValue).joined(separator: ", ")
                errors.append(.init(field: "state", message: "must be one of \(allowed)"))
            }
        }
        if let limit = parameters.pageSize(&errors) { query.limit = limit }
        if let text = parameters["cursor"] {
            query.before = Int64(text).flatMap { $0 > 0 ? $0 : nil }
            if query.before == nil {
                errors.append(.init(field: "cursor", message: "must be the nextCursor of an earlier response"))
            }
        }
        if !errors.isEmpty { throw Problem.invalidFields(errors) }
        let limit = query.limit
        // One more than requested shows whether there is a next page.
        query.limit += 1
        let wanted = query
        let found = try await access.core { () throws(UploadError) in try await state.deliveries(wanted) }
        let page = found.prefix(limit)
        return JSONResponse.response(
            200,
            Page(
                deliveries: page.compactMap { DeliveryView($0) },
                nextCursor: found.count > limit ? page.last.map { String($0.sequence) } : nil
            )
        )
    }

    private func redeliver(_ request: Request) async throws(Problem) -> Response {
        try await access.require(.admin, request)
        var fields = try await JSONFields(readingFrom: request, limit: bodyLimit)
        let ids = fields.strings(
            "ids",
            maximumCount: 1000,
            where: { $0.hasPrefix("msg_") && $0.utf8.count <= 64 },
            "the id of a delivery, such as msg_01jx…"
        )
        let state = fields.string("state", maximumLength: 16)
        if ids.isEmpty == (state == nil) {
            fields.reject("ids", "name either ids, or \"state\": \"dead\" for all that were given up")
        } else if let state, state != "dead" {
            fields.reject("state", "must be dead")
        }
        try fields.finish()
        let count = try await access.core { () throws(UploadError) in
            try await self.state.redeliver(state == nil ? ids : nil)
        }
        wake()
        return JSONResponse.response(202, ["count": count])
    }
}
