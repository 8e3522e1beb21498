package import Logging

/// One log line for each change of what grants access.
///
/// The message and the names of the fields are stable: programs search for them.
package struct AuditLog: Sendable {
    package enum Action: String, Sendable {
        case createKey = "key.create"
        case rotateKey = "key.rotate"
        case revokeKey = "key.revoke"
        case revoke = "revocation.create"
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
    ///   - actor: The id of the key that did it, or `commandLine`.
    ///   - client: Address of the client; `nil` for commands.
    ///   - fields: What else there is to say; no secrets.
    package func record(
        _ action: Action,
        key: String? = nil,
        by actor: String,
        client: String?,
        _ fields: [String: String?] = [:]
    ) {
        var metadata: Logger.Metadata = ["action": "\(action.rawValue)", "by": "\(actor)"]
        if let key { metadata["key"] = "\(key)" }
        if let client { metadata["client"] = "\(client)" }
        for case (let name, let value?) in fields { metadata[name] = "\(value)" }
        logger.notice("audit", metadata: metadata)
    }
}
