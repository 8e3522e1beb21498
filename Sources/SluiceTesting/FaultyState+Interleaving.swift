internal import Synchronization

extension FaultyState {
    /// Runs `work` before one of the calls that read or write records, or find objects; counted from 0 from now on.
    ///
    /// - Parameters:
    ///   - number: The call.
    ///   - mayRun: Whether a call counts. Work waits for an upload whose lock is held, so it must not run then.
    ///   - work: The work that overtakes.
    /// - Returns: Whether it has run; from the first question on it does not.
    package func overtake(
        beforeCall number: Int,
        when mayRun: @escaping @Sendable () -> Bool = { true },
        with work: @escaping @Sendable () async -> Void
    ) -> @Sendable () -> Bool {
        let counter = CallCounter(number)
        @Sendable func prepare(_ operation: Operation) {
            plan.before(operation) {
                prepare(operation)
                if mayRun(), counter.isNext() { await work() }
            }
        }
        let operations: [Operation] = [
            .insertRecord, .dialectRecord, .replaceRecord, .removeRecord, .applyChanges, .dialectRecords, .object,
        ]
        for operation in operations { prepare(operation) }
        return { [plan] in
            // What is prepared holds the state, which holds what is prepared.
            for operation in operations { plan.before(operation) {} }
            return counter.isOver()
        }
    }
}

private final class CallCounter: Sendable {
    private let callsLeft: Mutex<(count: Int, isOver: Bool)>

    init(_ calls: Int) { callsLeft = Mutex((calls, false)) }

    func isNext() -> Bool {
        callsLeft.withLock { calls in
            guard calls.count >= 0, !calls.isOver else { return false }
            calls.count -= 1
            return calls.count < 0
        }
    }

    func isOver() -> Bool {
        callsLeft.withLock { calls in
            calls.isOver = true
            return calls.count < 0
        }
    }
}
