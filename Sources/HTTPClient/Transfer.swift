internal import Bytes
internal import Synchronization

/// One request on its way: between the task that waits for its answer and the thread that fetches it.
///
/// Bytes wait in a buffer of bounded size; when it is full the transfer pauses until half of it was taken.
final class Transfer: Sendable {
    /// What the thread is to do with bytes.
    enum Reception {
        case taken
        case full
        /// Nobody wants them any more.
        case unwanted
    }

    private struct State {
        var head: HTTPClientHead?
        var pieces: [[UInt8]] = []
        /// Bytes in `pieces`.
        var buffered = 0
        var isPaused = false
        /// How the answer ended; what is buffered comes before it.
        var end: Result<Void, HTTPClientError>?
        /// Nobody wants the answer any more; comes before what is buffered.
        var abandoned: HTTPClientError?
        var interruption: SourceFailure?
        /// The one task that waits.
        var waiter: CheckedContinuation<Void, Never>?
    }

    static let capacity = 1 << 20
    /// Larger pieces cost less for each byte.
    private static let pieceSize = 256 << 10

    /// Where the request's content is, between the thread that reads it and whoever makes it.
    private enum Readiness: UInt8, AtomicRepresentable {
        case reading
        /// Nothing to read; the thread is to be told when there is.
        case waiting
        /// More came since the last read began.
        case woken
    }

    let request: PreparedRequest
    private let readiness = Atomic(Readiness.reading)
    private let loop: TransferLoop
    private let state = Mutex(State())

    init(_ request: PreparedRequest, loop: TransferLoop) {
        self.request = request
        self.loop = loop
        // Weak, as the content is held by the request.
        request.content?.whenReadable { [weak self] in self?.contentWoken() }
    }

    // MARK: The task

    /// Waits for the head of the final answer.
    func head() async throws(HTTPClientError) -> HTTPClientHead {
        while true {
            let found: Result<HTTPClientHead, HTTPClientError>? = state.withLock { state in
                if let error = state.abandoned { return .failure(error) }
                if let head = state.head { return .success(head) }
                return state.end.map { end in end.flatMap { .failure(.malformed) } }
            }
            if let found { return try found.get() }
            await wait { $0.head == nil && $0.end == nil }
        }
    }

    /// Waits for the next bytes of the content; `nil` at its end.
    func next(maximum: Int) async throws(HTTPClientError) -> [UInt8]? {
        while true {
            var resumes = false
            let found: Result<[UInt8]?, HTTPClientError>? = state.withLock { state in
                if let error = state.abandoned { return .failure(error) }
                guard let piece = Self.take(maximum, &state) else {
                    return state.end.map { end in end.map { nil } }
                }
                if state.isPaused, state.buffered <= Self.capacity / 2 {
                    state.isPaused = false
                    resumes = true
                }
                return .success(piece)
            }
            if resumes { loop.resume(self) }
            if let found { return try found.get() }
            await wait { $0.pieces.isEmpty && $0.end == nil }
        }
    }

    /// Why somebody interrupted it.
    var interruption: SourceFailure? { state.withLock { $0.interruption } }

    /// Ends the transfer, from any thread; what is buffered is forgotten.
    func end(with error: HTTPClientError, as failure: SourceFailure? = nil) {
        var isRunning = false
        let waiter: CheckedContinuation<Void, Never>? = state.withLock { state in
            if state.abandoned != nil { return nil }
            state.abandoned = error
            state.interruption = failure
            state.pieces = []
            state.buffered = 0
            isRunning = state.end == nil
            return state.waiter.take()
        }
        waiter?.resume()
        if isRunning { loop.abandon(self) }
    }

    private static func take(_ maximum: Int, _ state: inout State) -> [UInt8]? {
        guard let first = state.pieces.first else { return nil }
        let piece: [UInt8]
        if first.count <= maximum {
            state.pieces.removeFirst()
            piece = first
        } else {
            piece = Array(first.prefix(maximum))
            state.pieces[0].removeFirst(maximum)
        }
        state.buffered -= piece.count
        return piece
    }

    /// Waits for a change; not if there is nothing to wait for, because `condition` is false.
    private func wait(while condition: @Sendable (borrowing State) -> Bool) async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let mustWait = state.withLock { state in
                    guard state.abandoned == nil, condition(state) else { return false }
                    state.waiter = continuation
                    return true
                }
                if !mustWait { continuation.resume() }
            }
        } onCancel: {
            end(with: .cancelled)
        }
    }

    // MARK: The thread

    /// From any thread; tells the loop once for each time that it waits.
    private func contentWoken() {
        if readiness.exchange(.woken, ordering: .acquiringAndReleasing) == .waiting { loop.resume(self) }
    }

    func willReadContent() { _ = readiness.exchange(.reading, ordering: .acquiringAndReleasing) }

    /// What came since `willReadContent` may not have been seen by the read, so it is made again.
    func waitForContent() {
        let (isWaiting, _) = readiness.compareExchange(
            expected: .reading,
            desired: .waiting,
            ordering: .acquiringAndReleasing
        )
        if !isWaiting { loop.resume(self) }
    }

    var isAbandoned: Bool { state.withLock { $0.abandoned != nil } }

    func received(_ head: HTTPClientHead) {
        change { $0.head = head }
    }

    func received(_ bytes: UnsafeBufferPointer<UInt8>) -> Reception {
        var reception = Reception.taken
        change { state in
            if state.abandoned != nil {
                reception = .unwanted
            } else if state.buffered >= Self.capacity {
                state.isPaused = true
                reception = .full
            } else {
                Self.append(bytes, &state)
            }
        }
        return reception
    }

    func ended(_ result: Result<Void, HTTPClientError>) {
        change { state in if state.end == nil { state.end = result } }
    }

    private static func append(_ bytes: UnsafeBufferPointer<UInt8>, _ state: inout State) {
        state.buffered += bytes.count
        if let last = state.pieces.indices.last, state.pieces[last].count + bytes.count <= pieceSize {
            state.pieces[last].append(contentsOf: bytes)
        } else {
            state.pieces.append(Array(bytes))
        }
    }

    private func change(_ change: (inout State) -> Void) {
        let waiter = state.withLock { state in
            change(&state)
            return state.waiter.take()
        }
        waiter?.resume()
    }
}
