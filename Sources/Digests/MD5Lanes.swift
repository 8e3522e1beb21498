internal import Foundation
internal import Synchronization

/// Computes the MD5s of messages that arrive at the same time, up to four in parallel.
///
/// Each step of MD5 depends on the one before, so one message leaves most of a core idle: see `ParallelMD5`. Bytes of a
/// message wait until those of three others have arrived, but only as long as they are few. The end of a message waits
/// for nothing. No timer is involved.
package final class MD5Lanes: Sendable {
    /// One for all messages of the process.
    package static let shared = MD5Lanes()

    /// A message whose bytes arrive in pieces; it has one user at a time, which calls `finish` or `drop` in the end.
    ///
    /// Invariant for `@unchecked`: accessed only with `contents` of its lanes locked, except for `hash`, which belongs
    /// to the running batch, or to the user while no bytes wait.
    package final class Message: @unchecked Sendable {
        fileprivate var pieces: [ArraySlice<UInt8>] = []
        /// Bytes that are not hashed yet, including those of the running batch.
        fileprivate var count = 0
        fileprivate var isRunning = false
        fileprivate var isEnding = false
        /// Whether its user waits until bytes are hashed; then the message is urgent, so that a batch will resume the user.
        fileprivate var isAwaited = false
        fileprivate var isDropped = false
        fileprivate var line = Line.none
        fileprivate var continuation: CheckedContinuation<Void, Never>?
        fileprivate var hash = MD5Hash()

        package init() {}
    }

    fileprivate enum Line { case none, patient, urgent }

    fileprivate struct Contents {
        /// Messages with bytes that can wait for others.
        var patient: [Message] = []
        /// Messages with bytes that cannot.
        var urgent: [Message] = []
        /// Bytes of all messages that are not hashed yet.
        var count = 0
        var running = 0
    }

    private let contents = Mutex(Contents())
    /// Maximum number of batches at the same time, each on a core.
    private let mostRunning = max(1, ProcessInfo.processInfo.activeProcessorCount / 2)

    package init() {}

    /// From this number of bytes on, a message does not wait for others.
    static let urgentCount = 384 << 10
    /// With more bytes than this, a message takes no more until some are hashed.
    static let mostCount = 512 << 10
    /// The same for all messages together; then none waits for others.
    fileprivate static let mostTogether = 16 << 20

    /// Adds the next bytes of a message; returns when it can take more.
    package func add(_ piece: [UInt8], to message: Message) async {
        guard !piece.isEmpty else { return }
        contents.withLock { contents in
            message.pieces.append(piece[...])
            message.count += piece.count
            contents.count += piece.count
            message.isAwaited = !contents.canProceed(message)
            contents.enqueue(message)
        }
        startBatches()
        await wait(for: message)
    }

    /// The MD5 of all bytes, 16 bytes; do not use the message afterwards.
    package func finish(_ message: Message) async -> [UInt8] {
        contents.withLock { contents in
            message.isEnding = true
            message.isAwaited = message.count > 0
            if message.isAwaited { contents.enqueue(message) }
        }
        startBatches()
        await wait(for: message)
        return message.hash.finish()
    }

    /// Forgets a message that will not be finished.
    package func drop(_ message: Message) {
        contents.withLock { contents in
            message.isDropped = true
            // What a batch has taken is counted at its end.
            if message.isRunning { return }
            contents.dequeue(message)
            contents.count -= message.count
            message.count = 0
            message.pieces = []
        }
    }

    /// Bytes of all messages that are not hashed yet.
    var waitingCount: Int { contents.withLock { $0.count } }

    private func wait(for message: Message) async {
        if contents.withLock({ _ in !message.isAwaited }) { return }
        await withCheckedContinuation { continuation in
            let canProceed = contents.withLock { _ in
                if message.isAwaited { message.continuation = continuation }
                return !message.isAwaited
            }
            if canProceed { continuation.resume() }
        }
    }

    private func startBatches() {
        while let batch = contents.withLock({ $0.running < mostRunning ? $0.nextBatch() : nil }) {
            // Ends by itself; those who need its results wait for them.
            Task.detached { [self] in
                var batch = batch
                batch.run()
                end(batch)
                startBatches()
            }
        }
    }

    private func end(_ batch: MD5Batch) {
        let continuations = contents.withLock { contents in
            contents.running -= 1
            return batch.lanes.compactMap { contents.end($0) }
        }
        for continuation in continuations { continuation.resume() }
    }
}

extension MD5Lanes.Contents {
    /// Puts a message with bytes into its line, unless a batch runs that will do it.
    fileprivate mutating func enqueue(_ message: MD5Lanes.Message) {
        guard !message.isRunning else { return }
        let isUrgent = message.isAwaited || message.count >= MD5Lanes.urgentCount
        let line = isUrgent ? MD5Lanes.Line.urgent : .patient
        guard message.line != line else { return }
        dequeue(message)
        message.line = line
        if isUrgent { urgent.append(message) } else { patient.append(message) }
    }

    fileprivate mutating func dequeue(_ message: MD5Lanes.Message) {
        switch message.line {
        case .none: break
        case .patient: patient.removeAll { $0 === message }
        case .urgent: urgent.removeAll { $0 === message }
        }
        message.line = .none
    }

    fileprivate func canProceed(_ message: MD5Lanes.Message) -> Bool {
        if message.isEnding { return message.count == 0 }
        return message.count <= (count > MD5Lanes.mostTogether ? 0 : MD5Lanes.mostCount)
    }

    /// Takes the messages of the next batch; `nil` if all can wait for others.
    fileprivate mutating func nextBatch() -> MD5Batch? {
        let isFull = count > MD5Lanes.mostTogether
        guard !urgent.isEmpty || patient.count >= ParallelMD5.lanes || isFull && !patient.isEmpty else { return nil }
        let chosen = Array((urgent + patient).prefix(ParallelMD5.lanes))
        let lanes = chosen.map { message in
            let mustEnd = message.line == .urgent || isFull
            dequeue(message)
            message.isRunning = true
            defer { message.pieces = [] }
            return MD5Batch.Lane(message: message, hash: message.hash, pieces: message.pieces, mustEnd: mustEnd)
        }
        running += 1
        return MD5Batch(lanes: lanes)
    }

    /// Takes back what a batch has done for a message.
    ///
    /// - Returns: The user of the message, if it waited for this.
    fileprivate mutating func end(_ lane: MD5Batch.Lane) -> CheckedContinuation<Void, Never>? {
        let message = lane.message
        message.isRunning = false
        message.hash = lane.hash
        message.pieces = lane.pieces + message.pieces
        message.count -= lane.hashed
        count -= lane.hashed
        if message.isDropped {
            count -= message.count
            message.count = 0
            message.pieces = []
            return nil
        }
        if message.count > 0 { enqueue(message) }
        guard message.isAwaited, canProceed(message) else { return nil }
        message.isAwaited = false
        defer { message.continuation = nil }
        return message.continuation
    }
}
