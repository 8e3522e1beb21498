internal import Synchronization

/// What a request said of itself, for hooks; it holds no credential.
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

    package let info: RequestInfo
    private let answers = Mutex<HookAnswer?>(nil)

    package init(_ info: RequestInfo) { self.info = info }

    /// What hooks want the client to be answered; `nil` if nothing.
    package var answer: HookAnswer? { answers.withLock { $0 } }

    /// Adds what a hook says; a later one wins.
    package func add(_ answer: HookAnswer) {
        answers.withLock { $0 = $0?.merged(with: answer) ?? answer }
    }
}
