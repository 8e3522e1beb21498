internal import Transport

/// The tasks that serve the requests of one loop's connections.
///
/// A connection has no task of its own: the memory of a task's calls is several times larger than everything else of the
/// connection. One task serves a request after the other as long as none has to wait, so this memory stays in the CPU
/// caches; while one waits, another task goes on.
///
/// Invariant for `@unchecked`: used only on `loop`.
final class RequestWorkers: @unchecked Sendable {
    /// Tasks that are kept for later requests.
    private static let maximumIdle = 128

    /// Isolates the tasks to the executor of the connections: a call from another one would be a job of its own.
    private actor Place {
        private let loop: EventLoop
        nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

        init(_ loop: EventLoop) { self.loop = loop }
    }

    let loop: EventLoop
    private let place: Place
    let inputMemory = InputMemory()
    /// Connections with an action that no task has begun, from `head` on.
    private var waiting: [Connection] = []
    private var head = 0
    private var idle: [UnsafeContinuation<Void, Never>] = []
    /// A task will soon look at `waiting`.
    private var isWaking = false
    private var isClosed = false

    init(_ loop: EventLoop) {
        self.loop = loop
        place = Place(loop)
        // If connections are left, the task that began with them has to wait for something.
        loop.afterJobs { [weak self] in self?.continueWaiting() ?? false }
    }

    /// Calls `performPending` of the connection soon.
    func serve(_ connection: Connection) {
        assert(loop.isCurrent, "a connection is used on its loop")
        waiting.append(connection)
        wake()
    }

    private func continueWaiting() -> Bool {
        guard head < waiting.count else { return false }
        wake()
        return true
    }

    /// Ends the tasks that have nothing to do, now and later.
    func close() {
        isClosed = true
        for task in idle { task.resume() }
        idle = []
    }

    private func wake() {
        if isWaking { return }
        isWaking = true
        if let task = idle.popLast() {
            task.resume()
        } else {
            // Detached: task-local values of whoever calls this are not for the requests of others.
            Task.detached(executorPreference: loop) { await self.work(on: self.place) }
        }
    }

    private func work(on place: isolated Place) async {
        while true {
            isWaking = false
            while let connection = next() { await connection.performPending() }
            if isClosed || idle.count >= Self.maximumIdle { return }
            await withUnsafeContinuation { self.idle.append($0) }
        }
    }

    private func next() -> Connection? {
        guard head < waiting.count else { return nil }
        defer {
            head += 1
            if head == waiting.count {
                waiting.removeAll(keepingCapacity: true)
                head = 0
            }
        }
        return waiting[head]
    }
}
