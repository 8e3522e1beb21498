internal import Synchronization
package import UploadCore

/// Which calls of a faulty adapter fail.
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

    /// Lets calls of `operation` fail, counted from 1 from now on.
    ///
    /// - Parameters:
    ///   - operation: Which one.
    ///   - call: The first call that fails.
    ///   - count: How many calls fail.
    ///   - error: What they throw.
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

    /// Lets others be faster than the next call of `operation`, where the adapter can be overtaken there.
    package func before(_ operation: Operation, _ work: @escaping @Sendable () async -> Void) {
        contents.withLock { $0.others[operation] = work }
    }

    /// Lets others be faster than every call, as far as `pause` lets them.
    package func pause(_ pause: @escaping @Sendable () async -> Void) { contents.withLock { $0.pause = pause } }

    /// Does the next call of `operation`, and then throws `error`: the answer is lost, and not the work.
    package func lose(_ operation: Operation, with error: UploadError) {
        contents.withLock { $0.lost[operation] = error }
    }

    /// After the work is done.
    func answer(_ operation: Operation) throws(UploadError) {
        if let error = contents.withLock({ $0.lost.removeValue(forKey: operation) }) { throw error }
    }

    /// No call fails any more.
    package func recover() {
        contents.withLock { $0.faults = [:] }
    }

    /// How often `operation` was called since its fault was set, or from the beginning.
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
