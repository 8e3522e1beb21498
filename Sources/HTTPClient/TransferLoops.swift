internal import Synchronization

/// The threads of a client; gives each transfer to one of them, and queues those beyond the limit.
///
/// A transfer stays on its thread with all its attempts, and so does its connection. A thread starts only when each of the others
/// has a transfer, so a client whose requests follow each other has one. Among threads with equally few transfers, the one that
/// served the origin before gets the next request, because it has the idle connection.
final class TransferLoops: Sendable {
    fileprivate struct Place {
        let loop: TransferLoop
        /// Its share of the connections that are kept.
        let kept: Int
        /// Transfers that were given to the thread and have not left it.
        var transfers = 0
        /// Origins of the transfers that left it last, the latest at the end; at most `kept`.
        var origins: [String] = []
    }

    private struct State {
        var places: [Place] = []
        /// Transfers that wait for others to end, in order.
        var queue: [Transfer] = []
        /// The sum over all places.
        var running = 0
        var isClosed = false
    }

    private let settings: TransferLoop.Settings
    /// At most as many as there may be transfers and kept connections, so that these limits are exact.
    private let maximumThreads: Int
    private let state = Mutex(State())

    init(_ settings: TransferLoop.Settings) {
        self.settings = settings
        maximumThreads = min(settings.maximumThreads, settings.maximumTransfers, settings.keptConnections)
    }

    // MARK: Any thread

    /// Starts or queues a transfer; ends it with `.stopped` if the client is closed.
    func start(_ transfer: Transfer) {
        let (loop, isClosed): (TransferLoop?, Bool) = state.withLock { state in
            if state.isClosed { return (nil, true) }
            guard state.running < settings.maximumTransfers else {
                state.queue.append(transfer)
                return (nil, false)
            }
            return (place(transfer, &state), false)
        }
        if isClosed { transfer.ended(.failure(.stopped)) }
        loop?.start(transfer)
    }

    /// Ends a transfer that nothing waits for any more.
    func abandon(_ transfer: Transfer) {
        let loop: TransferLoop? = state.withLock { state in
            if let loop = transfer.loop { return loop }
            state.queue.removeAll { $0 === transfer }
            return nil
        }
        loop?.abandon(transfer)
    }

    /// Ends all transfers, current and later ones, with `.stopped`, and the threads.
    func close() {
        let (places, queue) = state.withLock { state in
            state.isClosed = true
            defer {
                state.places = []
                state.queue = []
            }
            return (state.places, state.queue)
        }
        for transfer in queue { transfer.ended(.failure(.stopped)) }
        for place in places { place.loop.close() }
    }

    // MARK: Places

    /// A transfer has left a thread: the next one in the queue can start.
    private func left(_ index: Int, _ transfer: Transfer) {
        let next: (TransferLoop, Transfer)? = state.withLock { state in
            guard !state.isClosed else { return nil }
            state.places[index].left(transfer.request.target.origin)
            state.running -= 1
            guard !state.queue.isEmpty else { return nil }
            let transfer = state.queue.removeFirst()
            return (place(transfer, &state), transfer)
        }
        if let (loop, transfer) = next { loop.start(transfer) }
    }

    /// Chooses the thread of a transfer: the one with the fewest.
    private func place(_ transfer: Transfer, _ state: inout State) -> TransferLoop {
        let index = existingThread(state.places, for: transfer.request.target.origin) ?? startThread(&state)
        state.places[index].transfers += 1
        state.running += 1
        transfer.loop = state.places[index].loop
        return state.places[index].loop
    }

    /// The thread with the fewest transfers; among equals, one that knows the origin, or else the one that knows the fewest.
    ///
    /// - Returns: `nil` if a new thread is better.
    private func existingThread(_ places: [Place], for origin: String) -> Int? {
        let least = places.lazy.map(\.transfers).min() ?? 0
        if places.isEmpty || least > 0 && places.count < maximumThreads { return nil }
        let equals = places.indices.filter { places[$0].transfers == least }
        return equals.first { places[$0].origins.contains(origin) }
            ?? equals.min { places[$0].origins.count < places[$1].origins.count }
    }

    private func startThread(_ state: inout State) -> Int {
        let index = state.places.count
        let (share, rest) = settings.keptConnections.quotientAndRemainder(dividingBy: maximumThreads)
        let kept = share + (index < rest ? 1 : 0)
        let loop = TransferLoop(settings, keptConnections: kept) { [weak self] transfer in self?.left(index, transfer) }
        if !loop.wakesUp,
            let least = state.places.indices.min(by: { state.places[$0].transfers < state.places[$1].transfers })
        {
            // It would only look for work now and then; a later request tries again.
            loop.close()
            return least
        }
        state.places.append(Place(loop: loop, kept: kept))
        return index
    }
}

extension TransferLoops.Place {
    fileprivate mutating func left(_ origin: String) {
        transfers -= 1
        if origins.last == origin { return }
        origins.removeAll { $0 == origin }
        origins.append(origin)
        if origins.count > kept { origins.removeFirst() }
    }
}
