import Testing
import UploadCore
import UploadModel

@Suite("Event bell", .timeLimit(.minutes(10)))
struct EventBellTests {
    @Test("a ring wakes waiting tasks, and later waits return at once", .timeLimit(.minutes(10)))
    func rings() async {
        let bell = EventBell()
        let count = bell.count
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<50 { group.addTask { await bell.wait(after: count, timeout: .seconds(3600)) } }
            group.addTask { bell.ring() }
        }
        #expect(bell.count != count)
        // Ends: at once.
        await bell.wait(after: count, timeout: .seconds(3600))
    }

    @Test("a wait ends at its timeout, and when its task is cancelled", .timeLimit(.minutes(10)))
    func ends() async {
        let bell = EventBell()
        await bell.wait(after: bell.count, timeout: .zero)
        for _ in 0..<100 {
            let task = Task { await bell.wait(after: bell.count, timeout: .seconds(3600)) }
            task.cancel()
            await task.value
        }
    }
}
