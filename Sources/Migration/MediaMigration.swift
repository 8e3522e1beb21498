internal import DiskStorage
internal import Foundation
package import GatewayKit
internal import HTTPClient
internal import S3Storage
package import SettingsKit
internal import Stores
internal import Synchronization
internal import SystemIO
internal import UploadCore
internal import UploadModel

/// Copies the bytes of uploads from the data directory into a store.
///
/// After a crash, the same call continues: blobs that are complete in the store are not sent again, others start over.
package struct MediaMigration: Sendable {
    private let settings: Settings
    private let report: @Sendable (String) -> Void

    /// - Parameters:
    ///   - settings: The settings of the gateway that will use the store.
    ///   - report: Receives progress messages, one line each.
    package init(_ settings: Settings, report: @escaping @Sendable (String) -> Void) {
        self.settings = settings
        self.report = report
    }

    /// Copies everything that the uploads need, and verifies it.
    ///
    /// - Parameter isRemoving: Whether verified blobs are removed from the disk.
    /// - Throws: `StartFailure` with a message for the operator; also if something could not be copied.
    package func run(removing isRemoving: Bool) async throws(StartFailure) {
        guard settings.general.storage == .s3 else {
            throw StartFailure(
                "storage (SLUICE_STORAGE) must be s3, and the store's settings must be set: the bytes are copied there"
            )
        }
        ProcessSetup.prepare()
        // Held until the end, so that no gateway changes what is copied.
        let directory = try DataDirectory.locked(for: settings)
        defer { withExtendedLifetime(directory) {} }
        let opened = try await GatewayState.open(settings)
        defer { opened.close() }
        let pool = BlockingPool(threads: settings.limits.blockingThreads, label: "sluice.block")
        let client = settings.s3Client
        defer { client.close() }
        let store = try await settings.s3Storage(
            records: opened.blobs,
            client: client,
            pool: pool,
            clock: opened.clock
        )
        let move = BlobMove(
            state: opened.store,
            records: opened.blobs,
            disk: DiskStorage(directory: directory, durability: settings.storageDurability, pool: pool),
            store: store,
            done: try MigratedBlobs(path: directory.migratedPath),
            isRemoving: isRemoving
        )
        let outcome = SharedTally()
        do throws(UploadError) {
            if try await opened.isInUse() {
                throw UploadError(.rejected, "A gateway uses the database; stop all of them.")
            }
            let mark = try await Self.checkedMark(opened, move)
            try await refuseJoined(move)
            try await moveAll(move, outcome)
            await store.finish(within: .seconds(10))
            try await findMissing(move, outcome)
            // From here on the store is the storage of this state; missing blobs are listed below.
            if let mark, outcome.withLock({ $0.failed.isEmpty }) { try await store.storeMark(mark) }
        } catch {
            await store.finish(within: .seconds(1))
            report(outcome.withLock { $0.text })
            throw StartFailure("\(Self.text(error)) Run the same command again to continue.")
        }
        let tally = outcome.withLock { $0 }
        report(tally.text)
        guard tally.failed.isEmpty else {
            throw StartFailure(
                "\(tally.failed.count) uploads are not in the store; run the same command to try them again."
            )
        }
        report(next(isRemoving: isRemoving, in: directory))
    }

    /// The mark for the store; `nil` while the state has none.
    ///
    /// - Throws: `.rejected` if disk or store belong to another state.
    private static func checkedMark(_ opened: GatewayState, _ move: BlobMove) async throws(UploadError) -> StoreMark? {
        guard let mark = try await opened.marks.storeMark(), mark.epoch > 0 else { return nil }
        let binding = StoreBinding(state: opened.store, marks: opened.marks, storage: move.disk)
        if let mismatch = try await binding.compare() { throw UploadError(.rejected, mismatch.description) }
        if let stored = try await move.store.storedMark(), stored.id != mark.id {
            throw UploadError(
                .rejected,
                "The store belongs to another gateway: use another bucket, or another s3.tailPrefix."
            )
        }
        return mark
    }

    private struct Tally {
        var copied = 0
        var copiedBytes: Int64 = 0
        var there = 0
        var ahead = 0
        var failed: Set<UploadID> = []
        var unneeded = 0
        var reported = ContinuousClock.now

        mutating func add(_ outcome: BlobMove.Outcome, _ bytes: Int64) {
            switch outcome {
            case .copied:
                copied += 1
                copiedBytes += bytes
            case .there: there += 1
            case .ahead: ahead += 1
            }
        }

        var text: String {
            var parts = ["\(copied) uploads copied (\(copiedBytes) bytes)", "\(there) already there"]
            if ahead > 0 { parts.append("\(ahead) continued in the store") }
            if unneeded > 0 { parts.append("\(unneeded) left on disk that no upload needs") }
            if !failed.isEmpty { parts.append("\(failed.count) failed") }
            return parts.joined(separator: ", ")
        }
    }

    private final class SharedTally: Sendable {
        private let tally = Mutex(Tally())

        func withLock<Result>(_ body: (inout sending Tally) -> Result) -> Result { tally.withLock { body(&$0) } }
    }

    private static let pageSize = 500

    private func moveAll(_ move: BlobMove, _ outcome: SharedTally) async throws(UploadError) {
        var last: UploadID?
        while true {
            let page = try await move.disk.list(after: last, limit: Self.pageSize)
            guard let end = page.last else { return }
            last = end
            let known = try await move.state.uploads(page)
            let needed = page.compactMap { known[$0] }.filter { $0.state == .open || $0.state == .completed }
            outcome.withLock { $0.unneeded += page.count - needed.count }
            try await moveAll(needed, move, outcome)
        }
    }

    private func moveAll(
        _ uploads: [Upload],
        _ move: BlobMove,
        _ outcome: SharedTally
    ) async throws(UploadError) {
        // Sequential: in optimised builds with Swift 6.3 a group of such tasks ends too early and crashes.
        for upload in uploads {
            let error: UploadError?
            do throws(UploadError) {
                let (done, bytes) = try await move.run(upload)
                outcome.withLock { $0.add(done, bytes) }
                error = nil
            } catch let failure {
                error = failure
            }
            if let error {
                outcome.withLock { _ = $0.failed.insert(upload.id) }
                report("\(upload.id): \(Self.text(error))")
                // All others would fail the same way.
                if error.code == .unavailable || error.code == .storageFull { throw error }
            }
            let line = outcome.withLock { tally -> String? in
                guard ContinuousClock.now - tally.reported > .seconds(1) else { return nil }
                tally.reported = .now
                return tally.text + " …"
            }
            if let line { report(line) }
        }
    }

    /// Finds multipart uploads that only a gateway with the disk can complete.
    ///
    /// - Throws: `.rejected` if there are any, before anything is moved, because that gateway needs all of it.
    private func refuseJoined(_ move: BlobMove) async throws(UploadError) {
        var query = UploadQuery(states: [.open], limit: Self.pageSize)
        while true {
            let page = try await move.state.uploads(query)
            guard let last = page.last else { return }
            for upload in page where upload.takesParts {
                guard try await move.disk.isJoined(upload.id) else { continue }
                throw UploadError(
                    .rejected,
                    """
                    The parts of upload \(upload.id) were joined, and that was not recorded: start the gateway with the disk once more, which \
                    completes it.
                    """
                )
            }
            query.before = last.id
        }
    }

    /// Finds uploads whose bytes are neither on disk nor in the store.
    private func findMissing(_ move: BlobMove, _ outcome: SharedTally) async throws(UploadError) {
        var query = UploadQuery(states: [.open, .completed], limit: Self.pageSize)
        while true {
            let page = try await move.state.uploads(query)
            guard let last = page.last else { return }
            for upload in page {
                let record = try await move.records.blob(upload.id)
                guard record == nil || upload.state == .completed && record?.state != .complete else { continue }
                let isNew = outcome.withLock { $0.failed.insert(upload.id).inserted }
                if isNew { report("\(upload.id): it is not in the store") }
            }
            query.before = last.id
        }
    }

    private static func text(_ error: UploadError) -> String {
        error.message + (error.cause.map { " (\($0))" } ?? "")
    }

    private func next(isRemoving: Bool, in directory: DataDirectory) -> String {
        """
        All bytes that uploads need are in the store and were compared. Next:
          - start the gateway with the storage's settings as for this command
          - \(isRemoving ? "compared blobs were removed from" : "the copies are still in") \(directory.root)/blobs\
        \(isRemoving ? "" : "; the same command with --remove compares new ones and removes all")
        """
    }
}
