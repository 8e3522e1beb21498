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

    @Test("each kind of event rings, so that it is delivered soon")
    func events() async throws {
        let bench = ServiceBench()
        let (uploads, bell) = (bench.services.uploads, bench.services.events.bell)
        var count = bell.count
        func hasRung() -> Bool {
            defer { count = bell.count }
            return bell.count != count
        }
        let id = try await bench.upload(3)
        #expect(hasRung(), "created")
        _ = try await uploads.setMetadata(UploadMetadata(values: ["name": "a"]), of: id)
        #expect(hasRung(), "updated")
        try await bench.append([1, 2, 3], to: id, at: 0)
        #expect(hasRung(), "completed")
        let other = try await bench.upload(3)
        _ = hasRung()
        try await uploads.terminate(other)
        #expect(hasRung(), "terminated")
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
