import Testing

@testable import Vimeo

@Suite("Transfers to Vimeo that wait", .timeLimit(.minutes(10)))
struct VimeoTransferQueueTests {
    private func taken(_ queue: VimeoTransferQueue) -> [String] {
        var keys: [String] = []
        while let key = queue.take() { keys.append(key) }
        return keys
    }

    @Test("one user has half of the places, and those who have the fewest come first")
    func turns() {
        let queue = VimeoTransferQueue(places: 4)
        for number in 1...5 { queue.add("1/\(number)") }
        #expect(taken(queue) == ["1/1", "1/2"])
        for key in ["2/1", "2/2", "2/3", "3/1"] { queue.add(key) }
        #expect(taken(queue) == ["2/1", "3/1"])
        queue.end("1/1")
        // Both have one place; who waits for longer comes first.
        #expect(taken(queue) == ["1/3"])
        queue.end("3/1")
        #expect(taken(queue) == ["2/2"])
        for key in ["1/2", "1/3", "2/1", "2/2"] { queue.end(key) }
        #expect(taken(queue) == ["1/4", "2/3", "1/5"])
    }

    @Test("a transfer is done once at a time, and again if there was news of it meanwhile")
    func again() {
        let queue = VimeoTransferQueue(places: 4)
        for _ in 0..<2 { queue.add("1/1") }
        #expect(taken(queue) == ["1/1"])
        queue.add("1/1")
        #expect(taken(queue) == [])
        queue.end("1/1")
        #expect(taken(queue) == ["1/1"])
        queue.end("1/1")
        #expect(taken(queue) == [])
    }

    @Test("a single place is anybody's")
    func single() {
        let queue = VimeoTransferQueue(places: 1)
        for key in ["1/1", "2/1"] { queue.add(key) }
        #expect(taken(queue) == ["1/1"])
        queue.end("1/1")
        #expect(taken(queue) == ["2/1"])
    }
}
