internal import Synchronization

/// Who sent a request, for its line in the log: known to those who check its credential, or who find its upload.
package final class RequestNote: Sendable {
    @TaskLocal package static var current: RequestNote?

    private struct Client {
        var key: String?
        var subject: String?
    }

    private let client = Mutex(Client())

    package init() {}

    /// The id of the API key, or of the one that minted the credential.
    package var key: String? { client.withLock(\.key) }
    package var subject: String? { client.withLock(\.subject) }

    /// Notes who is known now; the first ones count.
    package func identify(key: String?, subject: String?) {
        client.withLock { client in
            if client.key == nil { client.key = key }
            if client.subject == nil { client.subject = subject }
        }
    }
}
