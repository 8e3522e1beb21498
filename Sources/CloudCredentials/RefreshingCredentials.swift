internal import Foundation
package import Signing
internal import Synchronization
package import UploadModel

/// Caches the credentials of a chain, and fetches new ones before they expire.
///
/// Only a request for credentials starts a fetch, so an idle gateway sends nothing. One fetch runs at a time. In the
/// last five minutes of the credentials' validity it runs in the background and the old ones are returned; in the last
/// half minute callers wait for it. If it fails, the old ones are returned as long as they are valid.
package final class RefreshingCredentials: AWSCredentialsProvider {
    private typealias Outcome = Result<SigningCredentials, CredentialsError>

    private struct Held {
        var value: SigningCredentials
        /// When a background fetch is due; `nil` means never.
        var refreshAt: Date?
        var expiresAt: Date?

        func isDue(at now: Date) -> Bool { refreshAt.map { $0 <= now } ?? false }

        func isValid(at now: Date) -> Bool { expiresAt.map { now < $0 } ?? true }

        /// Whether a request with them could arrive too late.
        func isEnding(at now: Date) -> Bool {
            !isValid(at: now.addingTimeInterval(RefreshingCredentials.blockingMargin))
        }
    }

    private struct State {
        var held: Held?
        var isRefused = false
        var running: Task<Outcome, Never>?
        /// Start of the current fetch.
        var startedAt: Date?
        /// The failure of the last fetch.
        var failure: CredentialsError?
    }

    private enum Step {
        case give(SigningCredentials)
        case wait(Task<Outcome, Never>, SigningCredentials?)
        case fail(CredentialsError)
    }

    /// Seconds before the expiry at which new credentials are fetched.
    private static let margin: TimeInterval = 300
    /// Seconds before the expiry from which the old ones are returned only if the fetch fails.
    private static let blockingMargin: TimeInterval = 30
    /// Seconds after which a file is read again.
    private static let fileInterval: TimeInterval = 5
    /// Seconds before the next fetch if the fetched credentials had already expired.
    private static let expiredInterval: TimeInterval = 60
    /// Minimum seconds between fetches.
    private static let pause: TimeInterval = 1
    /// The same after a failure while the old credentials are still valid.
    private static let pauseAfterFailure: TimeInterval = 10

    private let chain: CredentialsChain
    private let clock: any WallClock
    private let state = Mutex(State())

    package init(_ chain: CredentialsChain, clock: any WallClock) {
        self.chain = chain
        self.clock = clock
    }

    package func credentials() async throws(CredentialsError) -> SigningCredentials {
        switch state.withLock({ step(&$0, at: clock.now) }) {
        case .give(let value): return value
        case .fail(let error): throw error
        case .wait(let fetch, let old):
            switch await fetch.value {
            case .success(let value): return value
            case .failure(let error):
                guard let old else { throw error }
                return old
            }
        }
    }

    /// The next call fetches; if the last fetch is less than a second old, the first call after that second does.
    package func invalidate() async {
        state.withLock { $0.isRefused = true }
    }

    /// Whether a fetch runs.
    var isFetching: Bool { state.withLock { $0.running != nil } }

    private func step(_ state: inout State, at now: Date) -> Step {
        let held = state.held
        let valid = held.flatMap { $0.isValid(at: now) ? $0.value : nil }
        let isUrgent = held.map { state.isRefused || $0.isEnding(at: now) } ?? true
        if let held, !isUrgent, !held.isDue(at: now) { return .give(held.value) }
        if state.running == nil, mayStart(state, hasValid: valid != nil, at: now) {
            state.startedAt = now
            state.isRefused = false
            state.running = Task { await self.fetch() }
        }
        if let fetch = state.running, isUrgent { return .wait(fetch, valid) }
        if let valid { return .give(valid) }
        return .fail(state.failure ?? CredentialsError("they have expired"))
    }

    private func mayStart(_ state: State, hasValid: Bool, at now: Date) -> Bool {
        guard let last = state.startedAt else { return true }
        let isSparing = state.failure != nil && hasValid && !state.isRefused
        // The clock may be set back, hence the absolute value.
        return abs(now.timeIntervalSince(last)) >= (isSparing ? Self.pauseAfterFailure : Self.pause)
    }

    private func fetch() async -> Outcome {
        let outcome: Result<FetchedCredentials, CredentialsError>
        do throws(CredentialsError) {
            outcome = .success(try await chain.fetch())
        } catch {
            outcome = .failure(error)
        }
        let now = clock.now
        return state.withLock { state in
            state.running = nil
            switch outcome {
            case .success(let fetched):
                state.held = Self.held(fetched, at: now)
                state.failure = nil
                return .success(fetched.value)
            case .failure(let error):
                state.failure = error
                return .failure(error)
            }
        }
    }

    private static func held(_ fetched: FetchedCredentials, at now: Date) -> Held {
        var held = Held(value: fetched.value)
        switch fetched.validity {
        case .constant: break
        case .untilReplaced: held.refreshAt = now.addingTimeInterval(fileInterval)
        case .until(let end):
            let lifetime = end.timeIntervalSince(now)
            // Spreads the fetches of nodes that started together.
            let jitter = Double.random(in: 0..<1)
            if lifetime <= blockingMargin {
                // Our clock may be wrong, and a failing metadata service can return old credentials: the store must
                // decide.
                held.refreshAt = now.addingTimeInterval(expiredInterval)
            } else {
                held.expiresAt = end
                held.refreshAt =
                    lifetime > 4 * margin
                    ? end.addingTimeInterval(-margin * (1 + jitter / 5))
                    : now.addingTimeInterval(lifetime * (0.5 + jitter / 4))
            }
        }
        return held
    }
}
