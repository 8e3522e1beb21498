internal import Foundation
internal import Signing

/// The master secrets of a gateway, for commands beside it.
package struct SecretRegister: Sendable {
    private let settings: Settings
    /// Where the settings have them from; `nil` if they are in the data directory.
    private let source: String?

    package init(_ loaded: LoadedSettings) {
        settings = loaded.values
        source = settings.masterSecret == nil ? nil : "\(loaded.source(of: "masterSecret"))"
    }

    /// All of them as a table, by names that tell nothing of them, in their order.
    ///
    /// - Throws: `StartFailure` if there are none yet, or they can not be read.
    package func table() throws(StartFailure) -> String {
        let path = MasterSecretFile.path(in: settings.dataDirectory)
        let found =
            if let configured = settings.masterSecret { configured.exposed } else {
                try MasterSecretFile.existing(in: settings.dataDirectory)
            }
        guard let found else { throw StartFailure("there is no \(path) yet; the first start of the gateway makes it") }
        return Self.table(of: found) + "\nfrom: \(source ?? path)"
    }

    /// Puts a new one before those of the data directory, and returns the table.
    ///
    /// - Throws: `StartFailure`, also where the settings name the secrets, which only the operator can change.
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
        return Self.table(of: try MasterSecretFile.rotate(in: settings.dataDirectory))
    }

    /// Removes one of the data directory that makes nothing new, and returns the table.
    ///
    /// - Throws: `StartFailure`, as `rotate`, and if there is none with this id or it is the first.
    package func drop(_ id: String) throws(StartFailure) -> String {
        if let source {
            throw StartFailure("masterSecret comes from \(source); remove there what is not to be accepted any more")
        }
        return Self.table(of: try MasterSecretFile.drop(id, in: settings.dataDirectory))
    }

    private static func table(of secret: MasterSecret) -> String {
        let rows = secret.each.map { one in
            "\(one.id)  " + (one.id == secret.id ? "makes what is new" : "is accepted")
        }
        return (["ID        USE"] + rows).joined(separator: "\n")
    }
}
