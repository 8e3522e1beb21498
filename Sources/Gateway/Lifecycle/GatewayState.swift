internal import DiskStorage
internal import Foundation
internal import Logging
internal import PostgresState
internal import SQLiteState
internal import Transport
internal import UploadCore

/// The state where the settings put it.
enum GatewayState: Sendable {
    /// In the data directory, for this process alone.
    case file(SQLiteState)
    /// In PostgreSQL, for any number of nodes.
    case database(PostgresState)

    var store: any StateStore {
        switch self {
        case .file(let state): state
        case .database(let state): state
        }
    }

    /// The time by which it is decided what becomes of uploads: that of the database, because clocks of nodes differ.
    var clock: any WallClock {
        switch self {
        case .file: SystemClock()
        case .database(let state): state.clock
        }
    }

    /// Where a storage keeps the records of its blobs.
    var blobs: any BlobRecords {
        switch self {
        case .file(let state): state
        case .database(let state): state
        }
    }

    /// Which storage belongs to it.
    var marks: any StoreMarks {
        switch self {
        case .file(let state): state
        case .database(let state): state
        }
    }

    /// Decides which node uses an upload; `nil` if there is one.
    var leases: (any LeaseAuthority)? {
        switch self {
        case .file: nil
        case .database(let state): state
        }
    }

    /// Whether a gateway works with it on any machine; a file's lock tells that before it is opened.
    func isInUse() async throws(UploadError) -> Bool {
        guard case .database(let state) = self else { return false }
        return try await state.hasNodes()
    }

    /// Has `bell` ring for what other nodes record, too.
    func connect(_ bell: EventBell) {
        guard case .database(let state) = self else { return }
        state.onEventsElsewhere { bell.ring() }
    }

    func close() {
        switch self {
        case .file(let state): state.close()
        case .database(let state): state.close()
        }
    }

    /// Opens the state for a gateway.
    ///
    /// - Parameters:
    ///   - settings: Where it is.
    ///   - path: Of the file, if it is one.
    ///   - logger: Told while the database can not be reached.
    /// - Returns: Open, with its schema up to date.
    /// - Throws: `StartFailure`, also when the database could not be reached for half a minute.
    static func open(_ settings: Settings, path: String, _ logger: Logger) async throws(StartFailure) -> GatewayState {
        guard let database = settings.databaseSettings else {
            return .file(try file(at: path, isSynchronous: settings.storageDurability != .none, threads: 4))
        }
        // Containers start in any order.
        let deadline = ContinuousClock.now + patience
        while true {
            do throws(PostgresStateError) {
                return .database(try await PostgresState.open(database))
            } catch {
                guard error.isUnreachable, ContinuousClock.now < deadline else { throw StartFailure("\(error)") }
                logger.warning("waiting for the database", metadata: ["error": "\(error)"])
            }
            try? await Task.sleep(for: .seconds(1))
        }
    }

    /// Opens the state for a command, beside a running gateway or without one.
    ///
    /// - Throws: `StartFailure`, also when there is no state in the data directory.
    static func open(_ settings: Settings) async throws(StartFailure) -> GatewayState {
        if let database = settings.databaseSettingsOfCommands {
            do throws(PostgresStateError) {
                return .database(try await PostgresState.open(database, asNode: false))
            } catch {
                throw StartFailure("\(error)")
            }
        }
        return .file(try file(of: settings))
    }

    /// Opens the state in the data directory, for a command.
    ///
    /// - Throws: `StartFailure`, also when there is none.
    static func file(of settings: Settings) throws(StartFailure) -> SQLiteState {
        let path = DataDirectory.statePath(in: settings.dataDirectory)
        guard FileManager.default.fileExists(atPath: path) else {
            throw StartFailure(
                "there is no state in \(settings.dataDirectory): start the gateway once, or name its directory by --data-dir"
            )
        }
        return try file(at: path, isSynchronous: true, threads: 1)
    }

    /// Opens the state in the data directory, and makes it if there is none.
    static func made(at path: String) throws(StartFailure) -> SQLiteState {
        try file(at: path, isSynchronous: true, threads: 1)
    }

    /// Of the threads one writes, and others read.
    private static func file(
        at path: String,
        isSynchronous: Bool,
        threads: Int
    ) throws(StartFailure) -> SQLiteState {
        let pool = BlockingPool(threads: threads, label: "sluice.state")
        do throws(SQLiteStateError) {
            return try SQLiteState(path: path, isSynchronous: isSynchronous, pool: pool)
        } catch {
            throw StartFailure("\(error)")
        }
    }

    private static let patience = Duration.seconds(30)
}

extension Settings {
    /// `nil` for a state in the data directory.
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

    /// As above, for a command that makes one call after the other.
    var databaseSettingsOfCommands: PostgresSettings? {
        guard var settings = databaseSettings else { return nil }
        settings.connections = 1
        settings.isSynchronous = true
        return settings
    }
}
