internal import Synchronization
package import SystemIO
internal import UploadModel

/// Limits how often each of many clients does something: a bucket of tokens for each, which fills steadily.
///
/// A bucket is one number: the time at which it is full again (the generic cell rate algorithm, ITU-T I.371).
package final class RateTable<Client: Hashable & Sendable>: Sendable {
    private struct Contents {
        /// When the bucket of a client is full again; clients of this generation.
        var recent: [Client: Nanoseconds] = [:]
        /// The generation before it, forgotten when the next one begins.
        var older: [Client: Nanoseconds] = [:]

        mutating func set(_ client: Client, _ full: Nanoseconds, _ generation: Int) {
            if recent.count >= generation, recent[client] == nil {
                older = recent
                recent = [:]
            }
            recent[client] = full
        }
    }

    /// Time in which one token comes.
    private let interval: Nanoseconds
    private let perSecond: Nanoseconds
    /// Time in which an empty bucket fills.
    private let span: Nanoseconds
    private let generation: Int
    private let contents = Mutex(Contents())

    /// - Parameters:
    ///   - perSecond: Tokens that come in a second; at least 1.
    ///   - burst: Tokens of a full bucket; at least 1.
    ///   - generation: Half of the number of clients that are known at the same time. A client that is forgotten begins
    ///     with a full bucket.
    package init(perSecond: Int, burst: Int, generation: Int = 50_000) {
        self.perSecond = Nanoseconds(max(1, perSecond))
        interval = 1_000_000_000 / self.perSecond
        // Not a multiple of `interval`, which is inexact for very high rates.
        span = Nanoseconds(max(1, burst)).multipliedReportingOverflow(by: 1_000_000_000).partialValue / self.perSecond
        self.generation = generation
    }

    /// Number of known clients; at most two generations.
    package var count: Int { contents.withLock { $0.recent.count + $0.older.count } }

    /// Takes a token.
    ///
    /// - Returns: `nil`, or how long to wait because there is none.
    package func take(_ client: Client, at now: Nanoseconds) -> Nanoseconds? {
        contents.withLock { contents in
            let known = contents.recent[client] ?? contents.older[client] ?? now
            let full = max(known, now) + interval
            if full > now + span { return full - now - span }
            contents.set(client, full, generation)
            return nil
        }
    }

    /// Takes tokens, also those that are still to come: clients that share a bucket then wait in the order of their calls.
    ///
    /// - Parameters:
    ///   - client: Who takes them.
    ///   - count: How many.
    ///   - now: The time.
    /// - Returns: How long to wait until the bucket has what was taken; 0 for not at all.
    package func charge(_ client: Client, _ count: Int, at now: Nanoseconds) -> Nanoseconds {
        contents.withLock { contents in
            let known = contents.recent[client] ?? contents.older[client] ?? now
            let (seconds, rest) = Nanoseconds(max(0, count)).quotientAndRemainder(dividingBy: perSecond)
            let full = max(known, now) + seconds * 1_000_000_000 + rest * 1_000_000_000 / perSecond
            contents.set(client, full, generation)
            return full > now + span ? full - now - span : 0
        }
    }
}

/// Counts what each of many clients does at the same time.
///
/// It knows only clients that do something.
package final class RunningTable<Client: Hashable & Sendable>: Sendable {
    private let maximum: Int
    private let counts = Mutex<[Client: Int]>([:])

    package init(maximum: Int) { self.maximum = maximum }

    /// Number of clients that do something.
    package var count: Int { counts.withLock { $0.count } }

    /// - Returns: Whether there was room; then call `end` once.
    package func begin(_ client: Client) -> Bool {
        counts.withLock { counts in
            let count = counts[client] ?? 0
            guard count < maximum else { return false }
            counts[client] = count + 1
            return true
        }
    }

    package func end(_ client: Client) {
        counts.withLock { counts in
            guard let count = counts[client] else { return }
            counts[client] = count > 1 ? count - 1 : nil
        }
    }
}
