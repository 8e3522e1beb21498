internal import Synchronization
package import UploadModel

/// Decides which calls of a faulty adapter fail.
package final class FaultPlan<Operation: Hashable & Sendable>: Sendable {
    private struct Contents {
        var calls: [Operation: Int] = [:]
        var faults: [Operation: (calls: Range<Int>, error: UploadError)] = [:]
        var others: [Operation: @Sendable () async -> Void] = [:]
        var lost: [Operation: UploadError] = [:]
        var pause: (@Sendable () async -> Void)?
    }

    private let contents = Mutex(Contents())

    private let fuse: Fuse?

    init(fuse: Fuse?) {
        self.fuse = fuse
    }

    /// Makes calls of `operation` fail, counted from 1 from now on.
    ///
    /// - Parameters:
    ///   - operation: The operation.
    ///   - call: The first call that fails.
    ///   - count: Number of calls that fail.
    ///   - error: The error that they throw.
    package func fail(
        _ operation: Operation,
        onCall call: Int = 1,
        count: Int = 1,
        with error: UploadError = UploadError(.storageFailure, "A fault that the test asked for.")
    ) {
        contents.withLock { contents in
            contents.calls[operation] = 0
            contents.faults[operation] = (call..<(call + count), error)
        }
    }

    /// Runs `work` before the next call of `operation`, to let other tasks overtake it.
    package func before(_ operation: Operation, _ work: @escaping @Sendable () async -> Void) {
        contents.withLock { $0.others[operation] = work }
    }

    /// Runs `pause` before every call, to let other tasks overtake it.
    package func pause(_ pause: @escaping @Sendable () async -> Void) { contents.withLock { $0.pause = pause } }

    /// Makes the next call of `operation` do its work and then throw `error`, as if the response were lost.
    package func lose(_ operation: Operation, with error: UploadError) {
        contents.withLock { $0.lost[operation] = error }
    }

    /// Called after the work is done.
    func response(_ operation: Operation) throws(UploadError) {
        if let error = contents.withLock({ $0.lost.removeValue(forKey: operation) }) { throw error }
    }

    /// Removes all faults.
    package func recover() {
        contents.withLock { $0.faults = [:] }
    }

    /// Number of calls of `operation` since its fault was set, or since the start.
    package func calls(of operation: Operation) -> Int { contents.withLock { $0.calls[operation] ?? 0 } }

    func step(_ operation: Operation) async throws(UploadError) {
        let (others, pause) = contents.withLock { ($0.others.removeValue(forKey: operation), $0.pause) }
        await others?()
        await pause?()
        if let fuse, !fuse.pass() { throw UploadError(.storageFailure, "A crash that the test asked for.") }
        let error: UploadError? = contents.withLock { contents in
            let call = (contents.calls[operation] ?? 0) + 1
            contents.calls[operation] = call
            guard let fault = contents.faults[operation], fault.calls.contains(call) else { return nil }
            return fault.error
        }
        if let error { throw error }
    }
}
