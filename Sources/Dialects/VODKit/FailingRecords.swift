internal import Foundation
internal import Synchronization
package import UploadModel

/// Records with which background work has failed: each is tried again ever later, so that it takes little from the others.
///
/// Kept in memory: after a restart all are tried at once.
package final class FailingRecords: Sendable {
    private struct Failure {
        var count: Int
        var dueAt: Date
    }

    private struct Contents {
        var failures: [[UInt8]: Failure] = [:]
        var lost = Duration.zero
    }

    private static let longestPause: TimeInterval = 3600

    /// `nil` puts nothing off.
    private let clock: (any WallClock)?
    private let most: Int
    private let onFailure: @Sendable (_ kind: String) -> Void
    private let contents = Mutex(Contents())

    /// For work that somebody waits for: nothing is put off.
    package init() {
        clock = nil
        most = 0
        onFailure = { _ in }
    }

    /// - Parameters:
    ///   - clock: The time.
    ///   - most: The number of records that are remembered; of more, all are tried again.
    ///   - onFailure: Called for each failure.
    package init(clock: any WallClock, most: Int = 10_000, onFailure: @escaping @Sendable (_ kind: String) -> Void) {
        self.clock = clock
        self.most = most
        self.onFailure = onFailure
    }

    /// The number of records whose last attempt has failed.
    package var count: Int { contents.withLock { $0.failures.count } }

    /// Does something with a record unless it is put off.
    ///
    /// - Returns: How that failed; `nil` if it did not.
    package func attempt(
        _ record: DialectRecord,
        _ body: (DialectRecord) async throws(UploadError) -> Void
    ) async -> UploadError? {
        await attempt(record.kind, record.key) { () async throws(UploadError) in try await body(record) }
    }

    /// Does something with what a kind and a key name, unless it is put off.
    package func attempt(
        _ kind: String,
        _ key: String,
        _ body: () async throws(UploadError) -> Void
    ) async -> UploadError? {
        let name = Self.name(kind, key)
        guard isDue(name) else { return nil }
        let start = ContinuousClock.now
        do throws(UploadError) {
            try await body()
            _ = contents.withLock { $0.failures.removeValue(forKey: name) }
            return nil
        } catch {
            let time = ContinuousClock.now - start
            contents.withLock { $0.lost += time }
            note(kind, name)
            return error
        }
    }

    /// Whether a record is not put off.
    package func isDue(_ record: DialectRecord) -> Bool { isDue(Self.name(record.kind, record.key)) }

    private func isDue(_ name: [UInt8]) -> Bool {
        guard let clock else { return true }
        let now = clock.now
        return contents.withLock { $0.failures[name].map { $0.dueAt <= now } ?? true }
    }

    /// Puts a record off: by 2, 4, 8 seconds … up to an hour.
    package func note(_ record: DialectRecord) { note(record.kind, Self.name(record.kind, record.key)) }

    private func note(_ kind: String, _ name: [UInt8]) {
        // A gateway that stops ends what it does.
        guard let clock, !Task.isCancelled else { return }
        let now = clock.now
        contents.withLock { contents in
            if contents.failures[name] == nil, contents.failures.count >= most {
                // Most of those that are due do not exist any more.
                contents.failures = contents.failures.filter { now < $0.value.dueAt }
                if contents.failures.count >= most { contents.failures = [:] }
            }
            let count = (contents.failures[name]?.count ?? 0) + 1
            let pause = min(TimeInterval(1 << min(count, 20)), Self.longestPause)
            contents.failures[name] = Failure(count: count, dueAt: now.addingTimeInterval(pause))
        }
        onFailure(kind)
    }

    /// The time that attempts took that have failed, since the last call.
    func takeLostTime() -> Duration {
        contents.withLock { contents in
            defer { contents.lost = .zero }
            return contents.lost
        }
    }

    /// Bytes: Swift takes texts for equal that a database keeps apart.
    private static func name(_ kind: String, _ key: String) -> [UInt8] { Array("\(kind)/\(key)".utf8) }
}
