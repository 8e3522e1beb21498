internal import Bytes
internal import Synchronization

/// A running request: connects the task that waits for the response with the thread that receives it.
///
/// Received bytes wait in a buffer of limited size. When it is full, the transfer pauses until half of it was taken.
final class Transfer: Sendable {
    /// How the thread must handle received bytes.
    enum ResponseMode {
        case taken
        case full
        /// The consumer is gone: discard them.
        case unwanted
    }

    private struct State {
        var head: HTTPClientHead?
        var pieces: [[UInt8]] = []
        /// Bytes in `pieces`.
        var buffered = 0
        var isPaused = false
        /// How the response ended; buffered bytes come before it.
        var end: Result<Void, HTTPClientError>?
        /// The consumer is gone; takes precedence over buffered bytes.
        var abandoned: HTTPClientError?
        var interruption: SourceFailure?
        /// The one task that waits.
        var waiter: CheckedContinuation<Void, Never>?
        /// The thread that runs it; `nil` while it is queued.
        var loop: TransferLoop?
    }

    static let capacity = 1 << 20
    /// Larger pieces cost less per byte.
    private static let pieceSize = 256 << 10

    /// The state of the request's content, shared by the thread that reads it and its producer.
    private enum Readiness: UInt8, AtomicRepresentable {
        case reading
        /// Nothing to read; the producer must wake the thread.
        case waiting
        /// More content became available since the last read began.
        case woken
    }

    let request: PreparedRequest
    private let readiness = Atomic(Readiness.reading)
    private let loops: TransferLoops
    private let state = Mutex(State())

    init(_ request: PreparedRequest, _ loops: TransferLoops) {
        self.request = request
        self.loops = loops
        // Weak, because the request retains the content.
        request.content?.whenReadable { [weak self] in self?.contentWoken() }
    }

    /// The thread that runs it, set once before it starts there; `nil` while it is queued.
    var loop: TransferLoop? {
        get { state.withLock { $0.loop } }
        set { state.withLock { $0.loop = newValue } }
    }

    // MARK: The task

    /// Waits for the head of the final response.
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
            if resumes { loop?.resume(self) }
            if let found { return try found.get() }
            await wait { $0.pieces.isEmpty && $0.end == nil }
        }
    }

    /// The reason given by `SourceInterrupter.interrupt`.
    var interruption: SourceFailure? { state.withLock { $0.interruption } }

    /// Ends the transfer and discards buffered bytes; can be called from any thread.
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
        if isRunning { loops.abandon(self) }
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

    /// Waits for a change while `condition` is true.
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

    /// Can be called from any thread; wakes the loop once per wait.
    private func contentWoken() {
        if readiness.exchange(.woken, ordering: .acquiringAndReleasing) == .waiting { loop?.resume(self) }
    }

    func willReadContent() { _ = readiness.exchange(.reading, ordering: .acquiringAndReleasing) }

    /// Content that arrived since `willReadContent` may have been missed by the read, so it is repeated.
    func waitForContent() {
        let (isWaiting, _) = readiness.compareExchange(
            expected: .reading,
            desired: .waiting,
            ordering: .acquiringAndReleasing
        )
        if !isWaiting { loop?.resume(self) }
    }

    var isAbandoned: Bool { state.withLock { $0.abandoned != nil } }

    func received(_ head: HTTPClientHead) {
        change { $0.head = head }
    }

    func received(_ bytes: UnsafeBufferPointer<UInt8>) -> ResponseMode {
        var mode = ResponseMode.taken
        change { state in
            if state.abandoned != nil {
                mode = .unwanted
            } else if state.buffered >= Self.capacity {
                state.isPaused = true
                mode = .full
            } else {
                Self.append(bytes, &state)
            }
        }
        return mode
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
