internal import Synchronization

/// A wait for the lease of another node, which may be ended from any thread.
package final class LeaseClaim: Sendable {
    package enum Signal: Sendable {
        /// The lease is ours, under this epoch.
        case granted(epoch: Int64)
        /// Something has changed that is worth a look.
        case look
        case withdrawn(UploadError)
    }

    fileprivate struct Contents {
        var signal: Signal?
        var waiter: CheckedContinuation<Void, Never>?
    }

    private let contents = Mutex(Contents())

    package init() {}

    /// The newest signal counts, but nothing takes the place of a withdrawal.
    package func signal(_ signal: Signal) {
        contents.withLock { contents -> CheckedContinuation<Void, Never>? in
            if case .withdrawn? = contents.signal { return nil }
            contents.signal = signal
            return contents.takeWaiter()
        }?.resume()
    }

    /// Waits for a signal.
    ///
    /// - Parameter duration: How long at most.
    /// - Returns: `nil` when the time is over, or the task was cancelled. A withdrawal is told again each time.
    package func wait(for duration: Duration) async -> Signal? {
        // Owned by this call: cancelled as soon as the wait is over.
        let timer = Task { [self] in
            try? await Task.sleep(for: duration)
            wake()
        }
        defer { timer.cancel() }
        await withTaskCancellationHandler {
            await withCheckedContinuation { waiter in
                let isOver = contents.withLock { contents in
                    // A cancellation before this moment found nobody to wake.
                    if contents.signal != nil || Task.isCancelled { return true }
                    contents.waiter = waiter
                    return false
                }
                if isOver { waiter.resume() }
            }
        } onCancel: {
            wake()
        }
        return contents.withLock { contents in
            if case .withdrawn? = contents.signal { return contents.signal }
            defer { contents.signal = nil }
            return contents.signal
        }
    }

    private func wake() {
        contents.withLock { $0.takeWaiter() }?.resume()
    }
}

extension LeaseClaim.Contents {
    fileprivate mutating func takeWaiter() -> CheckedContinuation<Void, Never>? {
        defer { waiter = nil }
        return waiter
    }
}
