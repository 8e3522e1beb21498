package import HTTPWire
package import Logging
internal import Telemetry
package import UploadModel

/// One log line for each change of what grants access or limits it, and for each deletion by the app; those for sign-ins are
/// in `SignInLog`.
///
/// The message and the names of the fields are stable: programs search for them.
package struct AuditLog: Sendable {
    package enum Action: String, Sendable {
        case createKey = "key.create"
        case rotateKey = "key.rotate"
        case revokeKey = "key.revoke"
        case revoke = "revocation.create"
        case setPolicy = "policy.set"
        case removePolicy = "policy.remove"
        case deleteUpload = "upload.delete"
        case deleteMedia = "media.delete"
        case admitUser = "user.admit"
        case mintSession = "session.mint"
        case refuseCredential = "credential.refuse"
    }

    /// `by` of changes by commands.
    package static let commandLine = "cli"

    private let logger: Logger

    package init(_ logger: Logger) {
        self.logger = logger
    }

    /// - Parameters:
    ///   - action: What was done.
    ///   - key: The id of the changed key, if there is one.
    ///   - actor: The id of the key that did it, or `commandLine`; `nil` if it is not known.
    ///   - client: Address of the client; `nil` for commands.
    ///   - fields: What else there is to say; no secrets.
    ///   - withheld: Number of lines that were left out before this one.
    package func record(
        _ action: Action,
        key: String? = nil,
        by actor: String?,
        client: String?,
        _ fields: [String: String?] = [:],
        withheld: UInt64 = 0
    ) {
        var metadata: Logger.Metadata = ["action": "\(action.rawValue)"]
        if let actor { metadata["by"] = "\(actor)" }
        if withheld > 0 { metadata["withheld"] = .number(withheld) }
        if let key { metadata["key"] = "\(key)" }
        if let client { metadata["client"] = "\(client)" }
        for case (let name, let value?) in fields { metadata[name] = "\(value)" }
        logger.notice("audit", metadata: metadata)
    }

    /// Records a deletion by an API key of the app; those by app users with tokens of their own are in the log of requests only.
    package func record(_ action: Action, _ id: UploadID, by actor: APIKey, _ request: Request) {
        guard actor.user == nil else { return }
        record(action, by: actor.id, client: request.clientAddress, ["upload": id.text])
    }
}
