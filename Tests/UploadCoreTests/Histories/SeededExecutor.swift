import Dispatch
import Foundation
import SluiceTesting
import Synchronization

/// Runs tasks one at a time, in an order that depends on a seed.
///
/// At each `pause`, any task that can continue may be next.
final class SeededExecutor: TaskExecutor {
    private enum Step {
        case job(UnownedJob)
        case paused(UnsafeContinuation<Void, Never>)
    }

    private struct Contents {
        var steps: [Step] = []
        var generator = SeededGenerator(seed: 0)
        var isOver = false
    }

    private let contents = Mutex(Contents())
    /// Signalled once per step.
    private let count = DispatchSemaphore(value: 0)

    init() {
        Thread.detachNewThread { [self] in run() }
    }

    /// From now on, the order depends on this seed.
    func begin(seed: UInt64) { contents.withLock { $0.generator = SeededGenerator(seed: seed) } }

    /// Call at the end, when no task is running.
    func stop() {
        contents.withLock { $0.isOver = true }
        count.signal()
    }

    func pause() async {
        await withUnsafeContinuation { add(.paused($0)) }
    }

    func enqueue(_ job: consuming ExecutorJob) { add(.job(UnownedJob(job))) }

    private func add(_ step: Step) {
        contents.withLock { $0.steps.append(step) }
        count.signal()
    }

    private func run() {
        while true {
            count.wait()
            let step: Step? = contents.withLock { contents in
                guard !contents.steps.isEmpty else { return nil }
                let index = Int.random(in: 0..<contents.steps.count, using: &contents.generator)
                contents.steps.swapAt(index, contents.steps.count - 1)
                return contents.steps.removeLast()
            }
            switch step {
            case .job(let job): job.runSynchronously(on: asUnownedTaskExecutor())
            case .paused(let continuation): continuation.resume()
            case nil: if contents.withLock({ $0.isOver }) { return }
            }
        }
    }
}
