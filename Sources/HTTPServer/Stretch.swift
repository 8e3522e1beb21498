internal import CSystem
internal import Synchronization
internal import Transport

/// What takes bytes out of a socket and puts them into a file: a pipe within the kernel, or a buffer under TLS.
///
/// Used by one thread at a time.
protocol BulkMeans: SendableMetatype {
    /// Takes what is there, at most `limit` bytes.
    ///
    /// - Precondition: What was taken before is put.
    func take(_ limit: Int) -> IOResult
    /// Puts all that was taken into the file.
    ///
    /// - Returns: Bytes that are in the file, and `errno` if they are fewer than were taken; 0 otherwise.
    func put(into file: Int32, at offset: Int64) -> (moved: Int64, failure: Int32)
    /// The most bytes that have come by now and were not taken.
    var arrived: Int64 { get }
    /// How many bytes the kernel may gather on a fast connection before it wakes the thread, if so many are still to come.
    var mark: Int { get }
    /// Bytes of the content that may be taken already, of which the kernel knows nothing.
    var slack: Int64 { get }
}

/// A part of a content on its way from a socket into a file, on a thread that may block.
struct Stretch: Sendable {
    /// Non-blocking.
    let socket: Int32
    /// Open for writing.
    let file: Int32
    /// Where in the file the first byte goes.
    let offset: Int64
    /// The most bytes to move.
    let limit: Int64
    /// The connection brought much when it was last asked.
    let isFast: Bool

    enum End: Equatable, Sendable {
        case limitReached
        case wouldBlock
        /// TLS has something to say before it can go on.
        case wouldBlockWriting
        /// The peer sends nothing more.
        case ended
        case socketFailed(errno: Int32)
        case fileFailed(errno: Int32)
    }

    /// Moves bytes until `limit`, an end, or until nothing more is there.
    ///
    /// Blocks while the file blocks. On a connection that is fast it waits for more here, because the way back to the loop
    /// costs more; and it lets the kernel gather bytes before it wakes this thread (SO_RCVLOWAT, socket(7)). When it
    /// returns, the mark is back at one byte, and everything that was taken is in the file unless the file failed.
    ///
    /// - Parameters:
    ///   - means: Fit for `socket`.
    ///   - mustHurry: Others wait for this thread.
    ///   - isCut: What has come by then is still moved, and nothing that comes later.
    /// - Returns: Bytes that are in the file, and why no more are.
    func move(
        by means: some BulkMeans,
        mustHurry: () -> Bool,
        isCut: borrowing Atomic<Bool>
    ) -> (moved: Int64, end: End) {
        var moved: Int64 = 0
        var limit = limit
        var wasCut = false
        var mark: Int32 = 1
        var gaveUp = false
        defer { if mark != 1 { _ = csys_receive_low_water(socket, 1) } }
        while moved < limit {
            if !wasCut, isCut.load(ordering: .relaxed) {
                wasCut = true
                limit = min(limit, moved + means.arrived)
                if moved == limit { return (moved, .wouldBlock) }
            }
            switch means.take(Int(clamping: limit - moved)) {
            case .moved:
                let (count, failure) = means.put(into: file, at: offset + moved)
                moved += count
                if failure != 0 { return (moved, .fileFailed(errno: failure)) }
            case .wouldBlockReading:
                guard isFast || moved >= Self.fastBytes, !gaveUp, !wasCut, !mustHurry() else {
                    return (moved, .wouldBlock)
                }
                let wanted = Int32(clamping: max(1, min(limit - moved - means.slack, Int64(means.mark))))
                if wanted != mark, csys_receive_low_water(socket, wanted) == 0 { mark = wanted }
                // Below the mark there may be bytes all the same: they are taken before this thread is given back.
                gaveUp = csys_wait_readable(socket, Self.patience) <= 0
            case .wouldBlockWriting: return (moved, .wouldBlockWriting)
            case .ended: return (moved, .ended)
            case .failed(let code): return (moved, .socketFailed(errno: code))
            }
        }
        return (moved, wasCut ? .wouldBlock : .limitReached)
    }

    /// A connection that brought so many bytes at once is fast.
    static let fastBytes: Int64 = 262_144
    /// How long this thread waits for more, in milliseconds.
    private static let patience: Int32 = 10
}
