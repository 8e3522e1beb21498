internal import Bytes
internal import Synchronization
internal import UploadModel

/// The memory budget of all uploads for bytes that the store has not confirmed yet: a number of bytes that callers take
/// and return.
///
/// Where callers wait, those of the user who has the least are served first, so that nobody's many uploads keep others waiting.
/// The app's own uploads, which belong to no user, wait like those of a user who has nothing.
final class MemoryPool: Sendable {
    private struct Waiter {
        let ticket: UInt64
        let bytes: Int
        let user: SubjectName?
        let continuation: CheckedContinuation<Bool, Never>
    }

    private struct Contents {
        var free: Int
        /// Bytes by user; never 0.
        var held: [SubjectName: Int] = [:]
        /// In order of arrival.
        var waiters: [Waiter] = []
        var lastTicket: UInt64 = 0

        /// The waiter whose turn it is.
        var next: Int? {
            waiters.indices.min { held(by: waiters[$0].user) < held(by: waiters[$1].user) }
        }

        func held(by user: SubjectName?) -> Int { user.flatMap { held[$0] } ?? 0 }

        mutating func take(_ bytes: Int, for user: SubjectName?) {
            free -= bytes
            if let user, bytes > 0 { held[user, default: 0] += bytes }
        }

        mutating func release(_ bytes: Int, of user: SubjectName?) {
            guard let user, let count = held[user] else { return }
            held[user] = count > bytes ? count - bytes : nil
        }
    }

    let capacity: Int
    private let contents: Mutex<Contents>

    init(capacity: Int) {
        self.capacity = capacity
        contents = Mutex(Contents(free: capacity))
    }

    var used: Int { capacity - contents.withLock { $0.free } }

    /// The number of callers that wait.
    var waiting: Int { contents.withLock { $0.waiters.count } }

    /// Takes bytes if enough are free and no other caller is waiting.
    func take(_ bytes: Int, for user: SubjectName? = StorageUser.current) -> Bool {
        bytes == 0
            || contents.withLock { contents in
                guard contents.waiters.isEmpty, contents.free >= bytes else { return false }
                contents.take(bytes, for: user)
                return true
            }
    }

    /// Takes bytes; users are served in turn, and the callers of each in order.
    ///
    /// - Parameters:
    ///   - bytes: Limited to the capacity of the pool.
    ///   - limit: Maximum waiting time.
    ///   - user: For whom.
    /// - Returns: `false`, with nothing taken, if they were not available in time.
    func take(
        _ bytes: Int,
        within limit: Duration,
        for user: SubjectName? = StorageUser.current
    ) async -> Bool {
        let bytes = min(bytes, capacity)
        if take(bytes, for: user) { return true }
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
                contents.waiters.append(
                    Waiter(ticket: ticket, bytes: bytes, user: user, continuation: continuation)
                )
                return Self.serve(&contents)
            }
            for waiter in served { waiter.continuation.resume(returning: true) }
        }
    }

    /// Returns bytes that were taken for the same user.
    func release(_ bytes: Int, of user: SubjectName? = StorageUser.current) {
        let served = contents.withLock { contents in
            contents.release(bytes, of: user)
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
        while let next = contents.next, contents.free >= contents.waiters[next].bytes {
            let waiter = contents.waiters.remove(at: next)
            contents.take(waiter.bytes, for: waiter.user)
            served.append(waiter)
        }
        return served
    }
}
