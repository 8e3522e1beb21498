import SluiceTesting
import Synchronization
import Testing
import UploadModel

@Suite("DELETE requests for objects on a full disk", .timeLimit(.minutes(10)))
struct FreeingTests {
    @Test("the deletion of an object may use the reserve; that of its tags, after which it is still there, may not")
    func reserve() async throws {
        let bench = try await ObjectBench()
        #expect(try await bench.send("PUT", "/bucket-1/a", content: [1]).outcome == "200")
        let wereFreeing = Mutex<[Bool]>([])
        for step in [.setAttributes, .end] as [FaultyState.Operation] {
            bench.state.plan.before(step) { wereFreeing.withLock { $0.append(FreeingWork.isRunning) } }
        }
        let outcomes = try await FreeingWork.$isRunning.withValue(true) {
            [
                try await bench.send("DELETE", "/bucket-1/a?tagging").outcome,
                try await bench.send("DELETE", "/bucket-1/a").outcome,
            ]
        }
        #expect(outcomes == ["204", "204"])
        #expect(wereFreeing.withLock { $0 } == [false, true])
    }
}
