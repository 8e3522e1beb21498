internal import Bytes
internal import DiskStorage
internal import Digests
internal import Foundation
package import GatewayKit
internal import PostgresState
package import SettingsKit
internal import SQLiteState
internal import Signing
internal import StateRecords
internal import Stores
internal import UploadModel

/// Copies the state of a data directory into a PostgreSQL database.
///
/// After a crash, the same call continues. In the data directory it only updates the schema, and finally leaves a note
/// that keeps gateways from starting on the old state.
package struct StateMigration: Sendable {
    private let settings: Settings
    private let report: @Sendable (String) -> Void

    /// - Parameters:
    ///   - settings: The settings of the gateway that will use the database.
    ///   - report: Receives progress messages, one line each.
    package init(_ settings: Settings, report: @escaping @Sendable (String) -> Void) {
        self.settings = settings
        self.report = report
    }

    /// Copies everything and compares both sides.
    ///
    /// - Parameter isNew: Whether to start over instead of continuing an unfinished migration.
    /// - Throws: `StartFailure` with a message for the operator.
    package func run(anew isNew: Bool) async throws(StartFailure) {
        guard let database = settings.databaseSettingsOfCommands else {
            throw StartFailure("database.url (SLUICE_DATABASE_URL) must be set: the state is copied there")
        }
        // Held until the end, so that no gateway changes what is copied.
        let directory = try DataDirectory.locked(for: settings)
        defer { withExtendedLifetime(directory) {} }
        let source = try GatewayState.file(of: settings)
        defer { source.close() }
        try checkSecret()
        let target: PostgresState
        do throws(PostgresStateError) {
            target = try await PostgresState.openForImport(database)
        } catch {
            throw StartFailure("\(error)")
        }
        defer { target.close() }
        do throws(UploadError) {
            try await copy(source, to: target, anew: isNew)
        } catch {
            let cause = error.cause.map { " (\($0))" } ?? ""
            throw StartFailure("\(error.message)\(cause) Run the same command again to continue.")
        }
        try RetiredState(statePath: DataDirectory.statePath(in: settings.general.dataDirectory)).write(at: Date())
        report(next)
    }

    private func copy(
        _ source: SQLiteState,
        to target: PostgresState,
        anew isNew: Bool
    ) async throws(UploadError) {
        var progress: ImportProgress
        switch try await target.beginImport(from: try await Self.name(of: source), anew: isNew) {
        case .open(let found): progress = found
        case .finished:
            report("This state was migrated into this database before; nothing was changed.")
            return
        case .otherSource:
            throw UploadError(.rejected, "The database has the state of another data directory; use an empty one.")
        case .inUse(let table):
            throw UploadError(.rejected, "The database is in use: its table \(table) has rows; use an empty one.")
        }
        for table in StoredTable.all { try await copy(table, source, to: target, &progress) }
        for table in StoredTable.all { try await compare(table, source, with: target) }
        try await target.finishImport(events: try await source.eventHistory())
    }

    /// A stable, unique name of the source: the hash of its first key, which is random or has its own creation time.
    private static func name(of source: SQLiteState) async throws(UploadError) -> String {
        let first = try await source.keys().min { ($0.createdAt, $0.id) < ($1.createdAt, $1.id) }
        guard let first else {
            throw UploadError(.rejected, "There is nothing to migrate: no gateway has used this data directory yet.")
        }
        let milliseconds = Milliseconds(first.createdAt).value
        return Hexadecimal.encode(Digest.hash(first.digest + Array("\(first.id) \(milliseconds)".utf8), .sha256))
    }

    // MARK: Copying

    /// Rows per transaction and per page.
    private static let pageSize = 1000

    private func copy(
        _ table: StoredTable,
        _ source: SQLiteState,
        to target: PostgresState,
        _ progress: inout ImportProgress
    ) async throws(UploadError) {
        let before = progress.table(table)?.count ?? 0
        if before > 0 { report("\(table.name): \(before) rows are there") }
        var reported = ContinuousClock.now
        while true {
            let page = try await source.rows(of: table, after: progress.table(table)?.last, limit: Self.pageSize)
            if page.isEmpty { break }
            progress = try await target.importRows(page, into: table, after: progress)
            if ContinuousClock.now - reported > .seconds(1) {
                reported = .now
                report("\(table.name): \(progress.table(table)?.count ?? 0) rows …")
            }
        }
        let count = progress.table(table)?.count ?? 0
        if count > before { report("\(table.name): \(count) rows copied") }
    }

    private func compare(
        _ table: StoredTable,
        _ source: SQLiteState,
        with target: PostgresState
    ) async throws(UploadError) {
        let there = try await Self.digest { key throws(UploadError) in
            try await source.rows(of: table, after: key, limit: Self.pageSize)
        } of: {
            table.key(of: $0)
        }
        let here = try await Self.digest { key throws(UploadError) in
            try await target.rows(of: table, after: key, limit: Self.pageSize)
        } of: {
            table.key(of: $0)
        }
        guard there == here else {
            throw UploadError(
                .storageFailure,
                """
                The table \(table.name) has \(there.count) rows in the data directory and \(here.count) in the database\
                \(there.count == here.count ? ", which are not the same" : ""): one of them was changed since the \
                migration began. Start over with --restart.
                """
            )
        }
        report("\(table.name): \(here.count) rows compared, equal")
    }

    private static func digest(
        _ page: ([StoredField]?) async throws(UploadError) -> [[StoredField]],
        of key: ([StoredField]) -> [StoredField]
    ) async throws(UploadError) -> RowsDigest {
        var digest = RowsDigest()
        var last: [StoredField]?
        while true {
            let rows = try await page(last)
            guard let end = rows.last else { return digest }
            for row in rows { digest.add(row) }
            last = key(end)
        }
    }

    // MARK: The secret

    /// With another secret, all credentials of clients would become invalid.
    private func checkSecret() throws(StartFailure) {
        guard let own = try MasterSecretFile.existing(in: settings.general.dataDirectory) else { return }
        guard try settings.master().accepts(own) else {
            let path = MasterSecretFile.path(in: settings.general.dataDirectory)
            throw StartFailure(
                """
                masterSecret (SLUICE_MASTER_SECRET) does not have the secrets of \(path), so upload URLs, tokens and links would be \
                worth nothing: set SLUICE_MASTER_SECRET_FILE=\(path). If the gateway did not use that file, move it away.
                """
            )
        }
    }

    private var next: String {
        let directory = settings.general.dataDirectory
        let secret =
            FileManager.default.fileExists(atPath: MasterSecretFile.path(in: directory))
            ? "SLUICE_MASTER_SECRET_FILE=\(MasterSecretFile.path(in: directory)), or that file's text as SLUICE_MASTER_SECRET"
            : "the same SLUICE_MASTER_SECRET as before"
        return """
            All of the state is in the database. Now:
              - start the gateway with SLUICE_DATABASE_URL as for this command, and with \(secret);
                other nodes need the same two
              - the bytes of uploads are still in \(directory)/blobs: use this data directory, or move them to a store that \
            all nodes can reach with `sluice migrate --media disk --to s3`
              - \(DataDirectory.statePath(in: directory)) is unchanged; no gateway starts on it any more
            """
    }
}

extension DataDirectory {
    /// Locks the data directory for a command, so that no gateway uses it.
    ///
    /// - Throws: `StartFailure`, also if a gateway uses it or it does not exist.
    static func locked(for settings: Settings) throws(StartFailure) -> DataDirectory {
        guard FileManager.default.fileExists(atPath: settings.general.dataDirectory) else {
            throw StartFailure("there is no data directory \(settings.general.dataDirectory): name it by --data-dir")
        }
        do throws(DataDirectoryError) {
            return try DataDirectory(at: settings.general.dataDirectory)
        } catch {
            throw StartFailure("\(error)")
        }
    }
}
