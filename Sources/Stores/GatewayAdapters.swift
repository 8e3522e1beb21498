internal import DiskStorage
package import GatewayKit
internal import HTTPClient
package import Logging
package import MetricsKit
internal import S3Storage
package import SettingsKit
package import SystemIO
package import UploadCore
package import UploadModel

/// State and storage, as configured.
package struct GatewayAdapters: Sendable {
    /// Locked as long as the gateway runs, even if the bytes are stored elsewhere.
    private let directory: DataDirectory
    package let state: GatewayState
    package let storage: any MarkedStorage
    package let binding: StoreBinding
    /// The S3 store, if configured, and its HTTP client.
    private let store: (storage: S3Storage, client: HTTPClient)?

    /// - Throws: `StartFailure` with a message for the operator.
    package init(
        _ settings: Settings,
        _ logger: Logger,
        pool: BlockingPool,
        metrics: MetricsRegistry
    ) async throws(StartFailure) {
        let directory = try starting { () throws(DataDirectoryError) in
            try DataDirectory(at: settings.general.dataDirectory)
        }
        self.directory = directory
        for path in directory.tightened {
            logger.warning(
                "other users had access to a path in the data directory; now only its owner has",
                metadata: ["path": "\(path)"]
            )
        }
        // Created before the state, because a data directory is useless without a secret.
        _ = try settings.master()
        // Before the state, which needs space to be opened.
        let reserve = settings.database.url == nil ? directory.reserve() : nil
        state = try await GatewayState.open(settings, path: directory.statePath, reserve, logger, metrics)
        switch settings.general.storage {
        case .disk:
            guard settings.general.durability == .none || directory.keepsDurableRecords else {
                throw StartFailure(DataDirectory.lackOfRecords(in: settings.general.dataDirectory))
            }
            storage = DiskStorage(
                directory: directory,
                durability: settings.storageDurability,
                pool: pool,
                reserve: reserve,
                recent: settings.recentFiles
            )
            store = nil
        case .s3:
            let client = settings.s3Client
            let s3 = try await settings.s3Storage(
                records: state.blobs,
                client: client,
                pool: pool,
                clock: state.clock,
                metrics: metrics,
                patience: logger
            )
            storage = s3
            store = (s3, client)
        }
        binding = StoreBinding(state: state.store, marks: state.marks, storage: storage)
    }

    /// The stores for the context of the modules.
    ///
    /// - Throws: `StartFailure` if it cannot be determined whether state and storage belong together.
    package func stores(_ settings: Settings, _ logger: Logger) async throws(StartFailure) -> GatewayStores {
        GatewayStores(
            state: state.store,
            storage: storage,
            clock: state.clock,
            buckets: settings.buckets,
            binding: binding,
            mismatch: try await waiting(for: "state and storage", logger) { () async throws(StartFailure) in
                try await binding.checked(logger)
            },
            isShared: settings.database.url != nil
        )
    }

    /// Aborts requests to the store and closes the state.
    ///
    /// - Parameter isPair: Whether state and storage belong together.
    package func close(isPair: Bool) async {
        // Copies made before this are older than the next start.
        if isPair { try? await binding.advance() }
        if let store {
            await store.storage.finish(within: .seconds(5))
            store.client.close()
        }
        state.close()
    }
}
