internal import Synchronization

/// A wait for a lease that another node holds; can be ended from any thread.
package final class LeaseClaim: Sendable {
    package enum Signal: Sendable {
        /// This node has the lease, under this epoch.
        case granted(epoch: Int64)
        /// Something changed; check again.
        case look
        case withdrawn(UploadError)
    }

    fileprivate struct Contents {
        var signal: Signal?
        var waiter: CheckedContinuation<Void, Never>?
        /// The number of the last wait, and of the last one whose time is over.
        var wait = 0
        var ended = 0
    }

    private let contents = Mutex(Contents())

    package init() {}

    /// Signals the waiter; the newest signal wins, but nothing replaces a withdrawal.
    package func signal(_ signal: Signal) {
        contents.withLock { contents -> CheckedContinuation<Void, Never>? in
            if case .withdrawn? = contents.signal { return nil }
            contents.signal = signal
            return contents.takeWaiter()
        }?.resume()
    }

    /// Waits for a signal.
    ///
    /// - Parameter duration: Maximum time to wait.
    /// - Returns: `nil` after `duration`, or when the task was cancelled. A withdrawal is returned by every later call
    ///   too.
    package func wait(for duration: Duration) async -> Signal? {
        let number = contents.withLock { contents in
            contents.wait += 1
            return contents.wait
        }
        // Owned by this call: cancelled when the wait ends.
        let timer = Task { [self] in
            try? await Task.sleep(for: duration)
            end(number)
        }
        defer { timer.cancel() }
        await withTaskCancellationHandler {
            await withCheckedContinuation { waiter in
                let isOver = contents.withLock { contents in
                    // The time may be over, or the task cancelled, before there is a waiter to resume.
                    if contents.signal != nil || contents.ended == number { return true }
                    contents.waiter = waiter
                    return false
                }
                if isOver { waiter.resume() }
            }
        } onCancel: {
            end(number)
        }
        return contents.withLock { contents in
            if case .withdrawn? = contents.signal { return contents.signal }
            defer { contents.signal = nil }
            return contents.signal
        }
    }

    /// Ends a wait without a signal; a later one goes on.
    private func end(_ number: Int) {
        contents.withLock { contents -> CheckedContinuation<Void, Never>? in
            guard contents.wait == number else { return nil }
            contents.ended = number
            return contents.takeWaiter()
        }?.resume()
    }
}

extension LeaseClaim.Contents {
    fileprivate mutating func takeWaiter() -> CheckedContinuation<Void, Never>? {
        defer { waiter = nil }
        return waiter
    }
}
