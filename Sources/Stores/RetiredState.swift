internal import DiskStorage
package import Foundation
package import GatewayKit

/// A note beside a state file that was migrated to a database.
///
/// Without it, a gateway without its `SLUICE_DATABASE_URL` would start on the old records: uploads would be recorded in
/// two places, and newer records in the database would be missing.
package struct RetiredState {
    private let path: String

    /// - Parameter statePath: Path of the state file.
    package init(statePath: String) { path = statePath + ".migrated" }

    /// Writes the note; an existing one is replaced.
    ///
    /// - Throws: `StartFailure`.
    package func write(at now: Date) throws(StartFailure) {
        let text = "Migrated to a database on \(now.formatted(.iso8601)).\n"
        do {
            try Data(text.utf8).write(to: URL(filePath: path), options: .atomic)
        } catch {
            throw StartFailure(
                "The state is in the database, but \(path) cannot be written: \(error.localizedDescription). Run the same command again."
            )
        }
    }

    /// Refuses a state that was migrated to a database.
    ///
    /// - Throws: `StartFailure`, which says how to continue.
    package func check() throws(StartFailure) {
        guard FileManager.default.fileExists(atPath: path) else { return }
        throw StartFailure(
            """
            the state of this data directory was migrated to a database: set SLUICE_DATABASE_URL to it. To go back to the old state, \
            without anything that was recorded since, remove \(path)
            """
        )
    }
}
