internal import DiskStorage
internal import Foundation
package import GatewayKit
package import Logging
package import MetricsKit
package import PostgresState
package import SettingsKit
package import SQLiteState
package import SystemIO
internal import Telemetry
package import UploadCore
package import UploadModel

/// The state, in the configured place.
package enum GatewayState: Sendable {
    /// In the data directory, for this process only.
    case file(SQLiteState)
    /// In PostgreSQL, for any number of nodes.
    case database(PostgresState)

    package var store: any StateStore {
        switch self {
        case .file(let state): state
        case .database(let state): state
        }
    }

    /// The clock that decides when uploads expire: the database's, because the clocks of nodes differ.
    package var clock: any WallClock {
        switch self {
        case .file: SystemClock()
        case .database(let state): state.clock
        }
    }

    /// Where a storage keeps the records of its blobs.
    package var blobs: any BlobRecords {
        switch self {
        case .file(let state): state
        case .database(let state): state
        }
    }

    /// Records which storage belongs to the state.
    package var marks: any StoreMarks {
        switch self {
        case .file(let state): state
        case .database(let state): state
        }
    }

    /// Decides which node uses an upload; `nil` if there is only one node.
    package var leases: (any LeaseAuthority)? {
        switch self {
        case .file: nil
        case .database(let state): state
        }
    }

    /// Whether a gateway uses it, on any machine; for a file, its lock shows that before it is opened.
    package func isInUse() async throws(UploadError) -> Bool {
        guard case .database(let state) = self else { return false }
        return try await state.hasNodes()
    }

    /// Makes `bell` ring for events recorded by other nodes too.
    package func connect(_ bell: EventBell) {
        guard case .database(let state) = self else { return }
        state.onEventsElsewhere { bell.ring() }
    }

    package func close() {
        switch self {
        case .file(let state): state.close()
        case .database(let state): state.close()
        }
    }

    /// Opens the state for a gateway; waits for a database that cannot be reached.
    ///
    /// - Parameters:
    ///   - settings: Where the state is.
    ///   - path: The path of the state file, if it is a file.
    ///   - reserve: Space on its disk that is kept for deletions.
    ///   - logger: Logs while the database cannot be reached.
    ///   - metrics: Takes the durations of operations.
    /// - Returns: The open state, with its schema up to date.
    /// - Throws: `StartFailure`, also if the state in the file was migrated to a database.
    package static func open(
        _ settings: Settings,
        path: String,
        _ reserve: SpaceReserve?,
        _ logger: Logger,
        _ metrics: MetricsRegistry
    ) async throws(StartFailure) -> GatewayState {
        guard let database = settings.databaseSettings else {
            try RetiredState(statePath: path).check()
            let pool = PoolMetrics.pool(threads: 4, label: "sluice.state", as: "state", in: metrics)
            let isSynchronous = settings.storageDurability != .none
            return .file(try file(at: path, isSynchronous: isSynchronous, pool, metrics, reserve))
        }
        let threads = database.connections
        let pool = PoolMetrics.pool(threads: threads, label: "sluice.postgres", as: "state", in: metrics)
        return try await waiting(for: "the database", logger) { () async throws(StartFailure) in
            do throws(PostgresStateError) {
                return .database(try await PostgresState.open(database, pool: pool, metrics: metrics))
            } catch {
                throw StartFailure("\(error)", isUnreachable: error.isUnreachable)
            }
        }
    }

    /// Opens the state for a command, with or without a running gateway.
    ///
    /// - Throws: `StartFailure`, also if the data directory contains no state, or it was migrated to a database.
    package static func open(_ settings: Settings) async throws(StartFailure) -> GatewayState {
        if let database = settings.databaseSettingsOfCommands {
            do throws(PostgresStateError) {
                return .database(try await PostgresState.open(database, asNode: false))
            } catch {
                throw StartFailure("\(error)")
            }
        }
        try RetiredState(statePath: DataDirectory.statePath(in: settings.general.dataDirectory)).check()
        return .file(try file(of: settings, with: DataDirectory.reserve(in: settings.general.dataDirectory)))
    }

    /// Opens the state in the data directory, for a command.
    ///
    /// - Parameters:
    ///   - settings: Where it is.
    ///   - reserve: Space for deletions, for a command that can make some.
    /// - Returns: The open state.
    /// - Throws: `StartFailure`, also if the state is missing.
    package static func file(
        of settings: Settings,
        with reserve: SpaceReserve? = nil
    ) throws(StartFailure) -> SQLiteState {
        let path = DataDirectory.statePath(in: settings.general.dataDirectory)
        guard FileManager.default.fileExists(atPath: path) else {
            throw StartFailure(
                "there is no state in \(settings.general.dataDirectory): start the gateway once, or name its directory by --data-dir"
            )
        }
        return try made(at: path, reserve)
    }

    /// Opens the state in the data directory, and creates it if it is missing.
    package static func made(at path: String, _ reserve: SpaceReserve? = nil) throws(StartFailure) -> SQLiteState {
        let pool = BlockingPool(threads: 1, label: "sluice.state")
        return try file(at: path, isSynchronous: true, pool, MetricsRegistry(), reserve)
    }

    /// One thread writes, the others read.
    private static func file(
        at path: String,
        isSynchronous: Bool,
        _ pool: BlockingPool,
        _ metrics: MetricsRegistry,
        _ reserve: SpaceReserve?
    ) throws(StartFailure) -> SQLiteState {
        do throws(SQLiteStateError) {
            return try SQLiteState(
                path: path,
                isSynchronous: isSynchronous,
                pool: pool,
                metrics: metrics,
                reserve: reserve
            )
        } catch {
            throw StartFailure("\(error)")
        }
    }
}

extension Settings {
    /// `nil` if the state is in the data directory.
    fileprivate var databaseSettings: PostgresSettings? {
        guard let url = database.url else { return nil }
        return PostgresSettings(
            url: url.exposed,
            connections: database.connections,
            isSynchronous: storageDurability != .none,
            connectTimeout: database.connectTimeout,
            lockTimeout: database.lockTimeout,
            statementTimeout: database.statementTimeout
        )
    }

    /// The same, for a command that makes one call after another.
    package var databaseSettingsOfCommands: PostgresSettings? {
        guard var settings = databaseSettings else { return nil }
        settings.connections = 1
        settings.isSynchronous = true
        return settings
    }
}
