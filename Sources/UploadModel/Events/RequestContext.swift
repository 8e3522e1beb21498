internal import Synchronization

/// What hooks learn about a request, and record; contains no credential.
package struct RequestInfo: Sendable, Equatable, Codable {
    package struct Field: Sendable, Equatable, Codable {
        package var name: String
        package var value: String

        package init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }

    package var method: String
    /// Path and query; a token that gives access to an upload is replaced by its id.
    package var uri: String
    /// Address of the client.
    package var remoteAddress: String
    package var fields: [Field]
    /// Field `traceparent` for what the request causes later; `nil` if it is not traced.
    package var trace: String?

    package init(method: String, uri: String, remoteAddress: String, fields: [Field], trace: String? = nil) {
        self.trace = trace
        self.method = method
        self.uri = uri
        self.remoteAddress = remoteAddress
        self.fields = fields
    }
}

/// A hook's changes to the response.
package struct HookResponse: Sendable, Equatable {
    /// `nil` keeps the server's status.
    package var status: Int?
    package var body: String?
    /// Each field replaces the server's field with this name.
    package var fields: [String: String]

    package init(status: Int? = nil, body: String? = nil, fields: [String: String] = [:]) {
        self.status = status
        self.body = body
        self.fields = fields
    }

    /// Merges two responses; values of `other` win.
    func merged(with other: HookResponse) -> HookResponse {
        HookResponse(
            status: other.status ?? status,
            body: other.body ?? body,
            fields: fields.merging(other.fields) { _, new in new }
        )
    }
}

/// The request that a task is working for, so that hooks can read it and change its response.
package final class RequestContext: Sendable {
    @TaskLocal package static var current: RequestContext?

    private struct Responses {
        var success: HookResponse?
        var refusal: HookResponse?
    }

    package let info: RequestInfo
    /// Returns all values of a request field by name; used to forward the fields that the settings name.
    package let fields: @Sendable (_ name: String) -> [String]
    private let responses = Mutex(Responses())

    package init(_ info: RequestInfo, fields: @escaping @Sendable (_ name: String) -> [String]) {
        self.info = info
        self.fields = fields
    }

    /// Changes by hooks to a successful response; `nil` if there are none.
    package var response: HookResponse? { responses.withLock { $0.success } }

    /// The response of the hook that refused the request; `nil` if none did.
    package var refusal: HookResponse? { responses.withLock { $0.refusal } }

    /// Merges a hook's response; later values win.
    package func add(_ response: HookResponse) {
        responses.withLock { $0.success = $0.success?.merged(with: response) ?? response }
    }

    package func refuse(with response: HookResponse) {
        responses.withLock { $0.refusal = response }
    }
}
