internal import Synchronization

/// Stops every adapter that shares it after a number of calls, like the death of the process.
package final class Fuse: Sendable {
    private let callsLeft = Mutex<Int?>(nil)

    package init() {}

    /// Allows `calls` more calls, then none.
    package func burn(afterCalls calls: Int) {
        callsLeft.withLock { $0 = calls }
    }

    /// Allows all calls again, like a restart of the process.
    package func replace() {
        callsLeft.withLock { $0 = nil }
    }

    package var isBurnt: Bool { callsLeft.withLock { $0 == 0 } }

    /// Whether one more call is allowed.
    func pass() -> Bool {
        callsLeft.withLock { left in
            guard let calls = left else { return true }
            guard calls > 0 else { return false }
            left = calls - 1
            return true
        }
    }
}
