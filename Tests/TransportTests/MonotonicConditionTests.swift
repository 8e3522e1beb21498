import Foundation
import SystemIO
import Testing

@Suite("a condition with a monotonic clock", .timeLimit(.minutes(10)))
struct MonotonicConditionTests {
    @Test("a wait ends at its end, which has not come before")
    func end() {
        let condition = MonotonicCondition()
        let end = MonotonicClock.deadline(after: .milliseconds(20))
        condition.locked {
            // It may wake for no reason.
            while condition.wait(until: end) {}
        }
        #expect(MonotonicClock.now >= end)
    }

    @Test("who waits is woken by a broadcast", arguments: [false, true])
    func broadcast(hasEnd: Bool) async {
        /// Invariant for `@unchecked`: touched only while the condition is held.
        final class State: @unchecked Sendable { var (isWaiting, isOver) = (false, false) }
        let (condition, state) = (MonotonicCondition(), State())
        await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                condition.locked {
                    state.isWaiting = true
                    while !state.isOver {
                        if hasEnd {
                            #expect(condition.wait(until: .max))
                        } else {
                            condition.wait()
                        }
                    }
                }
                continuation.resume()
            }
            Thread.detachNewThread {
                while !condition.locked({ state.isWaiting }) { sched_yield() }
                condition.locked { state.isOver = true }
                condition.broadcast()
            }
        }
        #expect(condition.locked { state.isOver })
    }
}
