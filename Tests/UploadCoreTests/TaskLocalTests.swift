import Dispatch
import Synchronization
import Testing
import UploadModel

@Suite("Values of tasks", .timeLimit(.minutes(1)))
struct TaskLocalTests {
    @TaskLocal private static var value = 0

    private final class CountingExecutor: SerialExecutor {
        private let queue = DispatchQueue(label: "counted")
        private let jobs = Atomic<Int>(0)

        var count: Int { jobs.load(ordering: .relaxed) }

        func enqueue(_ job: consuming ExecutorJob) {
            jobs.add(1, ordering: .relaxed)
            let job = UnownedJob(job)
            queue.async { job.runSynchronously(on: self.asUnownedSerialExecutor()) }
        }
    }

    private actor Place {
        let executor = CountingExecutor()
        nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

        func touch() -> Int { TaskLocalTests.value }

        /// - Returns: What was seen with a value, and how many jobs that took.
        func measure() async throws -> (seen: [Int], jobs: Int) {
            let before = executor.count
            return (try await TaskLocalTests.handle(self), executor.count - before)
        }
    }

    private struct Failure: Error, Equatable {}

    private static func handle(_ place: Place) async throws(Failure) -> [Int] {
        try await $value.with(1) { () async throws(Failure) in
            let first = await place.touch()
            return [first, await $value.with(2) { await place.touch() }, await place.touch()]
        }
    }

    @Test("what has a value runs where its caller does, without a job for each call")
    func isolation() async throws {
        let (seen, jobs) = try await Place().measure()
        #expect(seen == [1, 2, 1])
        #expect(jobs == 0)
        #expect(Self.value == 0)
    }

    @Test("errors keep their type")
    func errors() async {
        do throws(Failure) {
            try await Self.$value.with(1) { () async throws(Failure) in throw Failure() }
            Issue.record("no error")
        } catch {
            #expect(error == Failure())
        }
        // Also on no actor.
        await Task.detached { #expect(await Self.$value.with(3) { Self.value } == 3) }.value
    }
}
