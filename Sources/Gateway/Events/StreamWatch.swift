internal import Foundation
internal import Synchronization
internal import UploadCore

/// Ends event streams whose credential is over, within a second.
///
/// One task looks for all of them, and only while there are any; what it looks at is in memory (`RevocationList`).
final class StreamWatch: Sendable {
    /// By what a stream was opened.
    enum Holder: Sendable, Hashable {
        case key(id: String, expiresAt: Date?)
        /// By the URL of an upload that was admitted so.
        case upload(issuer: String?, subject: String?, createdAt: Date)
    }

    private struct Contents {
        var lastNumber: UInt64 = 0
        var streams: [Holder: [UInt64: @Sendable () -> Void]] = [:]
        var looker: Task<Void, Never>?
    }

    private let revoked: RevocationList
    private let clock: any WallClock
    private let contents = Mutex(Contents())

    init(revoked: RevocationList, clock: any WallClock) {
        self.revoked = revoked
        self.clock = clock
    }

    /// Does `body` while watching; `end` is called once, when the credential is over.
    ///
    /// - Parameters:
    ///   - holder: `nil` for a stream that nothing ends.
    ///   - end: Ends the stream.
    ///   - body: Tells what the stream tells.
    /// - Returns: What `body` returns.
    /// - Throws: What `body` throws.
    func watching<Success>(
        _ holder: Holder?,
        end: @escaping @Sendable () -> Void,
        _ body: () async throws -> Success
    ) async throws -> Success {
        guard let holder else { return try await body() }
        let number = add(holder, end)
        defer { remove(holder, number) }
        return try await body()
    }

    private func add(_ holder: Holder, _ end: @escaping @Sendable () -> Void) -> UInt64 {
        contents.withLock { contents in
            contents.lastNumber += 1
            contents.streams[holder, default: [:]][contents.lastNumber] = end
            if contents.looker == nil { contents.looker = Task.detached { [self] in await look() } }
            return contents.lastNumber
        }
    }

    private func remove(_ holder: Holder, _ number: UInt64) {
        let idle = contents.withLock { contents -> Task<Void, Never>? in
            contents.streams[holder]?[number] = nil
            if contents.streams[holder]?.isEmpty == true { contents.streams[holder] = nil }
            guard contents.streams.isEmpty else { return nil }
            defer { contents.looker = nil }
            return contents.looker
        }
        idle?.cancel()
    }

    private func look() async {
        while !Task.isCancelled {
            for holder in contents.withLock({ Array($0.streams.keys) }) where await isOver(holder) {
                let ends = contents.withLock { $0.streams[holder].map { Array($0.values) } ?? [] }
                for end in ends { end() }
            }
            try? await Task.sleep(for: Self.interval)
        }
    }

    private func isOver(_ holder: Holder) async -> Bool {
        do throws(UploadError) {
            switch holder {
            case .key(let id, let expiresAt):
                if let expiresAt, clock.now >= expiresAt { return true }
                // Of what was minted before a moment a key is none.
                return try await revoked.isRevoked(issuer: id, subject: nil, issuedAt: .distantFuture)
            case .upload(let issuer, let subject, let createdAt):
                return try await revoked.isRevoked(issuer: issuer, subject: subject, issuedAt: createdAt)
            }
        } catch {
            // Of this it can not be told.
            return false
        }
    }

    /// With the age of what the list believes it stays below a second.
    private static let interval = Duration.milliseconds(400)
}
