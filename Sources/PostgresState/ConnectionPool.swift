internal import Synchronization

/// Keeps idle connections and opens new ones.
///
/// It does not limit their number: there are at most as many as threads that use it.
final class ConnectionPool: Sendable {
    private struct Contents {
        /// The most recently used connection is last.
        var idle: [Connection] = []
        var isClosed = false
        /// Number of consecutive failures to connect, and when to try again.
        var failures = 0
        var nextAttempt: ContinuousClock.Instant?
    }

    private let target: Target
    private let contents = Mutex(Contents())

    init(_ target: Target) { self.target = target }

    /// Runs `work` with a connection.
    ///
    /// An idle connection may be broken because the server was restarted: if `work` fails before it changes anything
    /// (`DatabaseFailure.isRepeatable`), it runs again with a new connection.
    func run<Value>(_ work: (Connection) throws -> Value) throws -> Value {
        if let waiting = contents.withLock({ $0.idle.popLast() }) {
            do {
                return try use(waiting, work)
            } catch let failure as DatabaseFailure where failure.isConnectionLost {
                // If one idle connection is broken, the others most likely are too.
                dropIdle()
                if !failure.isRepeatable { throw failure }
            }
        }
        return try use(try connect(), work)
    }

    private func use<Value>(_ connection: Connection, _ work: (Connection) throws -> Value) throws -> Value {
        defer {
            if connection.isUsable {
                contents.withLock { contents in
                    if !contents.isClosed { contents.idle.append(connection) }
                }
            }
        }
        return try work(connection)
    }

    private func dropIdle() {
        // They are closed after the lock is released.
        let dropped = contents.withLock { contents in
            defer { contents.idle = [] }
            return contents.idle
        }
        _ = consume dropped
    }

    /// Connects; after a failure, calls fail at once until the next attempt is due, instead of queuing.
    private func connect() throws(DatabaseFailure) -> Connection {
        let (refusal, before) = contents.withLock { contents -> (String?, Int) in
            if contents.isClosed { return ("the state was closed", contents.failures) }
            if let next = contents.nextAttempt {
                let now = ContinuousClock.now
                if now < next { return ("connecting has just failed", contents.failures) }
                contents.nextAttempt = now + Self.delay(after: contents.failures)
            }
            return (nil, contents.failures)
        }
        if let refusal { throw DatabaseFailure(state: nil, message: refusal, isConnectionLost: true) }
        do {
            let connection = try Connection(to: target)
            contents.withLock { contents in
                contents.failures = 0
                contents.nextAttempt = nil
            }
            return connection
        } catch {
            contents.withLock { contents in
                // Concurrent failures count as one.
                guard contents.failures == before else { return }
                contents.failures += 1
                contents.nextAttempt = .now + Self.delay(after: contents.failures)
            }
            throw error
        }
    }

    /// 0.1 s, doubled with each failure up to 5 s, minus a random amount of up to half, so that nodes do not reconnect
    /// together.
    private static func delay(after failures: Int) -> Duration {
        .milliseconds(min(5000, 100 << min(failures - 1, 6))) * Double.random(in: 0.5...1)
    }

    /// Closes idle connections now and the others after their use; later calls fail.
    func close() {
        contents.withLock { $0.isClosed = true }
        dropIdle()
    }
}
