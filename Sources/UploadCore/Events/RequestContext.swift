internal import Synchronization

/// What a request said of itself, for hooks and their records; it holds no credential.
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
    /// Path and query, with the id in the place of what would give access to an upload.
    package var uri: String
    /// Address of the client.
    package var remoteAddress: String
    package var fields: [Field]

    package init(method: String, uri: String, remoteAddress: String, fields: [Field]) {
        self.method = method
        self.uri = uri
        self.remoteAddress = remoteAddress
        self.fields = fields
    }
}

/// What a hook wants the client to be answered.
package struct HookAnswer: Sendable, Equatable {
    /// `nil` leaves what the server says.
    package var status: Int?
    package var body: String?
    /// Each replaces the field of its name.
    package var fields: [String: String]

    package init(status: Int? = nil, body: String? = nil, fields: [String: String] = [:]) {
        self.status = status
        self.body = body
        self.fields = fields
    }

    /// With everything that `other` says.
    func merged(with other: HookAnswer) -> HookAnswer {
        HookAnswer(
            status: other.status ?? status,
            body: other.body ?? body,
            fields: fields.merging(other.fields) { _, new in new }
        )
    }
}

/// The request that a task works for, where hooks have to know it and can change its answer.
package final class RequestContext: Sendable {
    @TaskLocal package static var current: RequestContext?

    private struct Answers {
        var success: HookAnswer?
        var refusal: HookAnswer?
    }

    package let info: RequestInfo
    /// All values of a field of the request, by its name; for passing on what the settings name.
    package let fields: @Sendable (_ name: String) -> [String]
    private let answers = Mutex(Answers())

    package init(_ info: RequestInfo, fields: @escaping @Sendable (_ name: String) -> [String]) {
        self.info = info
        self.fields = fields
    }

    /// What hooks want the client to be answered if the request succeeds; `nil` if nothing.
    package var answer: HookAnswer? { answers.withLock { $0.success } }

    /// What the hook says that refused the request; `nil` if none did.
    package var refusal: HookAnswer? { answers.withLock { $0.refusal } }

    /// Adds what a hook says; a later one wins.
    package func add(_ answer: HookAnswer) {
        answers.withLock { $0.success = $0.success?.merged(with: answer) ?? answer }
    }

    package func refuse(with answer: HookAnswer) {
        answers.withLock { $0.refusal = answer }
    }
}
