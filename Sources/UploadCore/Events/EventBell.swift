internal import Synchronization

/// Wakes whoever waits for new events of this process.
package final class EventBell: Sendable {
    fileprivate struct Waiter {
        let continuation: CheckedContinuation<Void, Never>
        let timer: Task<Void, Never>
    }

    private struct Contents {
        var count: UInt64 = 0
        var lastTicket: UInt64 = 0
        var waiters: [UInt64: Waiter] = [:]
    }

    private let contents = Mutex(Contents())

    package init() {}

    /// How often it has rung; to be read before looking for events, and then given to `wait`.
    package var count: UInt64 { contents.withLock { $0.count } }

    package func ring() {
        let waiters = contents.withLock { contents in
            contents.count &+= 1
            defer { contents.waiters = [:] }
            return contents.waiters
        }
        for waiter in waiters.values { waiter.end() }
    }

    /// Waits until it has rung after `count`, for `timeout` at most; returns early when the task is cancelled.
    package func wait(after count: UInt64, timeout: Duration) async {
        let ticket = contents.withLock { contents in
            contents.lastTicket += 1
            return contents.lastTicket
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = contents.withLock { contents in
                    // A cancellation before this moment found nobody to release.
                    if contents.count != count || Task.isCancelled { return true }
                    let timer = Task { [self] in
                        try? await Task.sleep(for: timeout)
                        release(ticket)
                    }
                    contents.waiters[ticket] = Waiter(continuation: continuation, timer: timer)
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            release(ticket)
        }
    }

    private func release(_ ticket: UInt64) {
        contents.withLock { $0.waiters.removeValue(forKey: ticket) }?.end()
    }
}

extension EventBell.Waiter {
    fileprivate func end() {
        timer.cancel()
        continuation.resume()
    }
}
