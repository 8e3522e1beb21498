internal import DiskStorage
internal import Foundation
package import GatewayKit
internal import HTTPClient
package import SettingsKit
internal import Stores
internal import Synchronization
internal import SystemIO
internal import UploadCore
internal import UploadModel

/// Binds the configured state and storage while no gateway uses them, and restores missing records of blobs.
package struct StoreAdopting: Sendable {
    private let settings: Settings
    private let report: @Sendable (String) -> Void

    /// - Parameters:
    ///   - settings: The settings of the gateway.
    ///   - report: Receives progress messages, one line each.
    package init(_ settings: Settings, report: @escaping @Sendable (String) -> Void) {
        self.settings = settings
        self.report = report
    }

    /// - Parameters:
    ///   - isRebuilding: Whether to create missing records.
    ///   - isTrial: Whether to change nothing. Only a missing state is created, empty.
    /// - Throws: `StartFailure` with a message for the operator.
    package func run(rebuilding isRebuilding: Bool, trial isTrial: Bool) async throws(StartFailure) {
        ProcessSetup.prepare()
        // Held until the end, so that no gateway changes what is examined.
        let directory = try DataDirectory.locked(for: settings)
        defer { withExtendedLifetime(directory) {} }
        let opened = try await GatewayState.openForAdoption(settings, path: directory.statePath)
        defer { opened.close() }
        let pool = BlockingPool(threads: settings.limits.blockingThreads, label: "sluice.block")
        let client = settings.s3Client
        defer { client.close() }
        let storage: any MarkedStorage =
            switch settings.general.storage {
            case .disk: DiskStorage(directory: directory, durability: settings.storageDurability, pool: pool)
            case .s3:
                try await settings.s3Storage(records: opened.blobs, client: client, pool: pool, clock: opened.clock)
            }
        let adoption = StoreAdoption(
            state: opened.store,
            marks: opened.marks,
            storage: storage,
            now: opened.clock.now,
            lifetime: settings.uploadLimits.lifetime
        )
        let reported = Mutex(ContinuousClock.now)
        do throws(UploadError) {
            if try await opened.isInUse() {
                throw UploadError(.rejected, "A gateway uses the database; stop all of them.")
            }
            let outcome = try await adoption.run(rebuilding: isRebuilding, trial: isTrial) { [report] outcome in
                let isDue = reported.withLock { reported in
                    guard ContinuousClock.now - reported > .seconds(1) else { return false }
                    reported = .now
                    return true
                }
                if isDue { report("\(outcome.known + outcome.completed + outcome.opened + outcome.left) blobs …") }
            }
            summarize(outcome, trial: isTrial)
        } catch {
            let cause = error.cause.map { " (\($0))" } ?? ""
            throw StartFailure("\(error.message)\(cause) Run the same command again to continue.")
        }
    }

    private func summarize(_ outcome: StoreAdoption.Outcome, trial isTrial: Bool) {
        if let mismatch = outcome.mismatch { report("state and storage did not belong together: \(mismatch.rawValue)") }
        report("\(outcome.known) uploads have a record and bytes")
        report("\(outcome.completed) completed media rebuilt from their bytes (\(outcome.completedBytes) bytes)")
        report("\(outcome.opened) open uploads rebuilt")
        report("\(outcome.renewed) open uploads got a new expiry")
        report("\(outcome.left) left without a record; the next sweep sets them aside for \(quarantine)")
        if !outcome.missing.isEmpty {
            report("\(outcome.missing.count) uploads have a record but no bytes:")
            for id in outcome.missing.prefix(Self.mostNamed) { report("  \(id)") }
            if outcome.missing.count > Self.mostNamed { report("  …") }
        }
        report(isTrial ? "nothing was changed" : "state and storage belong together now: start the gateway")
    }

    private var quarantine: String { DurationText.format(settings.uploads.quarantine) }

    private static let mostNamed = 20
}

extension GatewayState {
    /// Opens the state as for a command, but creates it if it is missing, because it may be what was lost.
    fileprivate static func openForAdoption(_ settings: Settings, path: String) async throws(StartFailure)
        -> GatewayState
    {
        if settings.database.url != nil { return try await open(settings) }
        try RetiredState(statePath: path).check()
        return .file(try made(at: path))
    }
}
