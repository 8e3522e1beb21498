internal import Foundation
internal import Synchronization
internal import UploadCore
internal import UploadModel

/// Ends event streams within a second after their credential becomes invalid.
///
/// One task checks all of them, only while there are any, and in memory (`RevocationList`), but
/// for the secrets of keys, which are read once or twice a second.
final class StreamWatch: Sendable {
    /// The credential of a stream.
    enum Holder: Sendable, Hashable {
        /// `secret` is the digest of the secret that opened the stream, which a rotation ends.
        case key(id: String, expiresAt: Date?, secret: [UInt8])
        /// The token of an app user.
        case user(issuer: String, subject: String?, issuedAt: Date, expiresAt: Date)
        /// The URL of an upload that was admitted like this.
        case upload(issuer: String?, subject: String?, createdAt: Date)
    }

    private struct Contents {
        var lastNumber: UInt64 = 0
        var streams: [Holder: [UInt64: @Sendable () -> Void]] = [:]
        var looker: Task<Void, Never>?
    }

    private let revoked: RevocationList
    private let authenticator: Authenticator
    private let clock: any WallClock
    private let contents = Mutex(Contents())

    init(revoked: RevocationList, authenticator: Authenticator, clock: any WallClock) {
        self.revoked = revoked
        self.authenticator = authenticator
        self.clock = clock
    }

    /// Runs `body` while watching; `end` is called once, when the credential becomes invalid.
    ///
    /// - Parameters:
    ///   - holder: `nil` for a stream that nothing ends.
    ///   - end: Ends the stream.
    ///   - body: Sends the stream.
    /// - Returns: The result of `body`.
    /// - Throws: Errors of `body`.
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
            case .key(let id, let expiresAt, let secret):
                if let expiresAt, clock.now >= expiresAt { return true }
                guard try await authenticator.accepts(secret) else { return true }
                // Revocations by minting time do not apply to keys.
                return try await revoked.isRevoked(issuer: id, subject: nil, issuedAt: nil)
            case .user(let issuer, let subject, let issuedAt, let expiresAt):
                if clock.now >= expiresAt { return true }
                return try await revoked.isRevoked(issuer: issuer, subject: subject, issuedAt: issuedAt)
            case .upload(let issuer, let subject, let createdAt):
                return try await revoked.isRevoked(issuer: issuer, subject: subject, issuedAt: createdAt)
            }
        } catch {
            // Unknown while the state cannot be read.
            return false
        }
    }

    /// Together with the list's own delay it stays below a second.
    private static let interval = Duration.milliseconds(400)
}
