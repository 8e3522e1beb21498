internal import Synchronization
internal import UploadModel

/// Wakes tasks that wait for new events of this process.
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

    /// Number of rings so far; read it before looking for events, then pass it to `wait`.
    package var count: UInt64 { contents.withLock { $0.count } }

    package func ring() {
        let waiters = contents.withLock { contents in
            contents.count &+= 1
            defer { contents.waiters = [:] }
            return contents.waiters
        }
        for waiter in waiters.values { waiter.end() }
    }

    /// Waits until it has rung after `count`, at most for `timeout`; returns early when the task is cancelled.
    package func wait(after count: UInt64, timeout: Duration) async {
        let ticket = contents.withLock { contents in
            contents.lastTicket += 1
            return contents.lastTicket
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = contents.withLock { contents in
                    // If the task was cancelled before this point, the handler found no waiter to resume.
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
