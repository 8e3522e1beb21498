internal import Synchronization

/// Connections that wait for their next use, and how the next one is made.
///
/// It does not count them: there are as many as threads that use it.
final class ConnectionPool: Sendable {
    private struct Contents {
        /// The last one was used last.
        var idle: [Connection] = []
        var isClosed = false
        /// How often connecting failed in a row, and when it is tried again.
        var failures = 0
        var nextAttempt: ContinuousClock.Instant?
    }

    private let target: Target
    private let contents = Mutex(Contents())

    init(_ target: Target) { self.target = target }

    /// Runs `work` with a connection.
    ///
    /// One that waited here may be broken, because the server was started anew: then `work` runs again with a new one, if it
    /// failed before it changed anything (`DatabaseFailure.isRepeatable`).
    func run<Value>(_ work: (Connection) throws -> Value) throws -> Value {
        if let waiting = contents.withLock({ $0.idle.popLast() }) {
            do {
                return try use(waiting, work)
            } catch let failure as DatabaseFailure where failure.isConnectionLost && failure.isRepeatable {
                // What happened to one has likely happened to all.
                dropIdle()
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
        // They are closed after the lock was let go.
        let dropped = contents.withLock { contents in
            defer { contents.idle = [] }
            return contents.idle
        }
        _ = consume dropped
    }

    /// Connects, but while that fails only now and then: calls in between fail at once instead of waiting in a line.
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
                // Those that fail together count as one.
                guard contents.failures == before else { return }
                contents.failures += 1
                contents.nextAttempt = .now + Self.delay(after: contents.failures)
            }
            throw error
        }
    }

    /// 0.1 s, doubled with each failure, at most 5 s, less up to a half by chance, so that nodes do not come all at once.
    private static func delay(after failures: Int) -> Duration {
        .milliseconds(min(5000, 100 << min(failures - 1, 6))) * Double.random(in: 0.5...1)
    }

    /// Closes the idle ones now and the others after their use; later calls fail.
    func close() {
        contents.withLock { $0.isClosed = true }
        dropIdle()
    }
}
