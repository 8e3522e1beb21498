internal import Synchronization

/// Stops everything that it is built into after a number of calls, as the death of the process does.
package final class Fuse: Sendable {
    private let callsLeft = Mutex<Int?>(nil)

    package init() {}

    /// Lets `calls` more calls through, and then none.
    package func burn(afterCalls calls: Int) {
        callsLeft.withLock { $0 = calls }
    }

    /// Lets all calls through again: the process is started again.
    package func replace() {
        callsLeft.withLock { $0 = nil }
    }

    package var isBurnt: Bool { callsLeft.withLock { $0 == 0 } }

    /// Whether one more call may be made.
    func pass() -> Bool {
        callsLeft.withLock { left in
            guard let calls = left else { return true }
            guard calls > 0 else { return false }
            left = calls - 1
            return true
        }
    }
}
