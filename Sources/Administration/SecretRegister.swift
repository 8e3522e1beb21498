internal import Foundation
package import GatewayKit
package import SettingsKit
internal import Signing
internal import Stores

/// The master secrets of a gateway, for commands.
package struct SecretRegister: Sendable {
    private let settings: Settings
    /// The setting that provides the secrets; `nil` if they are in the data directory.
    private let source: String?

    package init(_ loaded: LoadedSettings) {
        settings = loaded.values
        source = settings.general.masterSecret == nil ? nil : "\(loaded.source(of: "masterSecret"))"
    }

    /// A table of all secrets in order, by ids that reveal nothing.
    ///
    /// - Throws: `StartFailure` if there are none yet, or they cannot be read.
    package func table() throws(StartFailure) -> String {
        let path = MasterSecretFile.path(in: settings.general.dataDirectory)
        let found =
            if let configured = settings.general.masterSecret { configured.exposed } else {
                try MasterSecretFile.existing(in: settings.general.dataDirectory)
            }
        guard let found else {
            throw StartFailure("there is no \(path) yet; the first start of the gateway creates it")
        }
        return Self.table(of: found) + "\nfrom: \(source ?? path)"
    }

    /// Adds a new first secret in the data directory, and returns the table.
    ///
    /// - Throws: `StartFailure`, also if the secrets come from settings, which only the operator can change.
    package func rotate() throws(StartFailure) -> String {
        if let source {
            throw StartFailure(
                """
                masterSecret comes from \(source), so it is rotated there. On one node: put a new secret, a comma, and what is \
                there now. On many: first add ",<new>" behind what is there, on all nodes and with a restart of each; then put the \
                new one first, likewise. A new one is made by `openssl rand -base64 32`.
                """
            )
        }
        return Self.table(of: try MasterSecretFile.rotate(in: settings.general.dataDirectory))
    }

    /// Removes a secret that is no longer used for anything new, and returns the table.
    ///
    /// - Throws: `StartFailure` as in `rotate`, and if no secret has this id or it is the first one.
    package func drop(_ id: String) throws(StartFailure) -> String {
        if let source {
            throw StartFailure(
                "masterSecret comes from \(source); remove secrets that should no longer be accepted there"
            )
        }
        return Self.table(of: try MasterSecretFile.drop(id, in: settings.general.dataDirectory))
    }

    private static func table(of secret: MasterSecret) -> String {
        let rows = secret.each.map { one in
            "\(one.id)  " + (one.id == secret.id ? "is used for everything new" : "is accepted")
        }
        return (["ID        USE"] + rows).joined(separator: "\n")
    }
}
