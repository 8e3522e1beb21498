internal import Synchronization
internal import SystemIO
internal import Transport

/// Moves bytes from a socket to a file: with a pipe inside the kernel, or with a buffer under TLS.
///
/// Used by one thread at a time.
protocol SocketReader: SendableMetatype {
    /// Takes available bytes, at most `limit`.
    ///
    /// - Precondition: All bytes taken before were put into the file.
    func take(_ limit: Int, _ io: BlockingIO) -> IOResult
    /// Puts all taken bytes into the file.
    ///
    /// - Returns: Number of bytes written, and `errno` if they are fewer than were taken; 0 otherwise.
    func put(into file: OpenFile, at offset: Int64, _ io: BlockingIO) -> (moved: Int64, failure: Int32)
    /// Upper bound of the bytes that have arrived and were not taken.
    var arrived: Int64 { get }
}

/// Moves part of a request's content from a socket to a file, on a thread that may block.
struct SocketTransfer: Sendable {
    /// Lent to the thread.
    let channel: Channel
    /// Open for writing.
    let file: OpenFile
    /// Where in the file the first byte goes.
    let offset: Int64
    /// The most bytes to move.
    let limit: Int64
    /// Whether much data had arrived at the last check.
    let isFast: Bool
    /// What is set aside of the file's disk for this content.
    let reservation: BlockReservation

    struct Outcome: Sendable {
        /// Bytes that were written to the file.
        var moved: Int64 = 0
        var end = End.limitReached
        var reservation: BlockReservation
    }

    enum End: Equatable, Sendable {
        case limitReached
        case wouldBlock
        /// TLS must write before it can continue.
        case wouldBlockWriting
        /// The peer will send nothing more.
        case ended
        case socketFailed(errno: Int32)
        case fileFailed(errno: Int32)
    }

    /// Moves bytes until `limit`, the end, or until no more are available.
    ///
    /// Blocks while the file blocks. On a fast connection it also waits for more bytes here, because returning to the
    /// loop costs more. When it returns, everything that was taken is in the file, unless writing failed. If the
    /// channel was cut, bytes that have already arrived are still moved, later ones are not.
    ///
    /// - Parameters:
    ///   - reader: A reader that suits `channel`.
    ///   - io: Of the pool that the thread belongs to.
    ///   - mustHurry: Other jobs wait for this thread.
    /// - Returns: Number of bytes written to the file, why it stopped, and what is set aside now.
    func move(by reader: some SocketReader, _ io: BlockingIO, mustHurry: () -> Bool) -> Outcome {
        var outcome = Outcome(reservation: reservation)
        outcome.end = move(by: reader, io, mustHurry: mustHurry, &outcome.moved, &outcome.reservation)
        return outcome
    }

    private func move(
        by reader: some SocketReader,
        _ io: BlockingIO,
        mustHurry: () -> Bool,
        _ moved: inout Int64,
        _ reservation: inout BlockReservation
    ) -> End {
        var limit = limit
        var wasInterrupted = false
        var isPatient = false
        defer { if isPatient { channel.setReceiveTimeout(0) } }
        while moved < limit {
            let isFastNow = isFast || moved >= Self.fastBytes
            let isToWait = !wasInterrupted && isFastNow && !mustHurry()
            if isToWait != isPatient {
                channel.setReceiveTimeout(isToWait ? Self.waitTimeout : 0)
                isPatient = isToWait
            }
            if !wasInterrupted, channel.isInterrupted.load(ordering: .relaxed) {
                wasInterrupted = true
                limit = min(limit, moved + reader.arrived)
                if moved == limit { return .wouldBlock }
            }
            switch reader.take(Int(clamping: limit - moved), io) {
            case .moved:
                let (count, failure) = reader.put(into: file, at: offset + moved, io)
                moved += count
                if failure != 0 { return .fileFailed(errno: failure) }
                if let blocks = reservation.advance(by: count, left: limit - moved), isFastNow, !wasInterrupted {
                    io.preallocate(file, at: offset + moved, count: blocks)
                }
            case .wouldBlockReading: return .wouldBlock
            case .wouldBlockWriting: return .wouldBlockWriting
            case .ended: return .ended
            case .failed(let code): return .socketFailed(errno: code)
            }
        }
        return wasInterrupted ? .wouldBlock : .limitReached
    }

    /// A connection is fast if this many bytes have arrived at once.
    static let fastBytes: Int64 = 262_144
    /// How long this thread waits for more bytes, in milliseconds.
    ///
    /// It waits for the first byte only: bytes that collect in the kernel (SO_RCVLOWAT) leave the CPU caches, and
    /// copying them takes twice as long.
    private static let waitTimeout: Int32 = 10
}
