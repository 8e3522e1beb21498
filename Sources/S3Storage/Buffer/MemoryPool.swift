internal import Synchronization

/// The memory budget of all uploads for bytes that the store has not confirmed yet: a number of bytes that callers take
/// and return.
final class MemoryPool: Sendable {
    private struct Waiter {
        let ticket: UInt64
        let bytes: Int
        let continuation: CheckedContinuation<Bool, Never>
    }

    private struct Contents {
        var free: Int
        var waiters: [Waiter] = []
        var lastTicket: UInt64 = 0
    }

    let capacity: Int
    private let contents: Mutex<Contents>

    init(capacity: Int) {
        self.capacity = capacity
        contents = Mutex(Contents(free: capacity))
    }

    var used: Int { capacity - contents.withLock { $0.free } }

    /// Takes bytes if enough are free and no other caller is waiting.
    func take(_ bytes: Int) -> Bool {
        bytes == 0
            || contents.withLock { contents in
                guard contents.waiters.isEmpty, contents.free >= bytes else { return false }
                contents.free -= bytes
                return true
            }
    }

    /// Takes bytes; callers are served in order.
    ///
    /// - Parameters:
    ///   - bytes: Limited to the capacity of the pool.
    ///   - limit: Maximum waiting time.
    /// - Returns: `false`, with nothing taken, if they were not available in time.
    func take(_ bytes: Int, within limit: Duration) async -> Bool {
        let bytes = min(bytes, capacity)
        if take(bytes) { return true }
        let ticket = contents.withLock { contents in
            contents.lastTicket += 1
            return contents.lastTicket
        }
        // Owned by this call, and cancelled as soon as the wait is over.
        let timer = Task {
            try? await Task.sleep(for: limit)
            if !Task.isCancelled { turnAway(ticket) }
        }
        defer { timer.cancel() }
        return await withCheckedContinuation { continuation in
            let served = contents.withLock { contents in
                contents.waiters.append(Waiter(ticket: ticket, bytes: bytes, continuation: continuation))
                return Self.serve(&contents)
            }
            for waiter in served { waiter.continuation.resume(returning: true) }
        }
    }

    func release(_ bytes: Int) {
        let served = contents.withLock { contents in
            contents.free = min(capacity, contents.free + bytes)
            return Self.serve(&contents)
        }
        for waiter in served { waiter.continuation.resume(returning: true) }
    }

    private func turnAway(_ ticket: UInt64) {
        let (waiter, served): (Waiter?, [Waiter]) = contents.withLock { contents in
            guard let index = contents.waiters.firstIndex(where: { $0.ticket == ticket }) else { return (nil, []) }
            let waiter = contents.waiters.remove(at: index)
            // Callers behind it may need less.
            return (waiter, Self.serve(&contents))
        }
        waiter?.continuation.resume(returning: false)
        for waiter in served { waiter.continuation.resume(returning: true) }
    }

    private static func serve(_ contents: inout Contents) -> [Waiter] {
        var served: [Waiter] = []
        while let first = contents.waiters.first, contents.free >= first.bytes {
            contents.free -= first.bytes
            served.append(contents.waiters.removeFirst())
        }
        return served
    }
}
