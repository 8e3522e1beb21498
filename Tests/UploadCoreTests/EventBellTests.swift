import Testing
import UploadCore

@Suite("Event bell")
struct EventBellTests {
    @Test("who waits is woken, and who comes after a ring does not wait", .timeLimit(.minutes(1)))
    func rings() async {
        let bell = EventBell()
        let count = bell.count
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<50 { group.addTask { await bell.wait(after: count, timeout: .seconds(3600)) } }
            group.addTask { bell.ring() }
        }
        await bell.wait(after: count, timeout: .seconds(3600))
    }

    @Test("a wait ends with its time, and with its task", .timeLimit(.minutes(1)))
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
