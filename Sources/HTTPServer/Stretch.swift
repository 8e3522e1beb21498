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
}

/// A part of a content on its way from a socket into a file, on a thread that may block.
struct Stretch: Sendable {
    /// Lent to the thread.
    let channel: Channel
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
    /// costs more. When it returns, everything that was taken is in the file unless the file failed. Of a channel that was
    /// cut, what has come by then is still moved, and nothing that comes later.
    ///
    /// - Parameters:
    ///   - means: Fit for `channel`.
    ///   - mustHurry: Others wait for this thread.
    /// - Returns: Bytes that are in the file, and why no more are.
    func move(
        by means: some BulkMeans,
        mustHurry: () -> Bool
    ) -> (moved: Int64, end: End) {
        var moved: Int64 = 0
        var limit = limit
        var wasCut = false
        var isPatient = false
        defer { if isPatient { channel.setPatience(0) } }
        while moved < limit {
            let isToWait = !wasCut && (isFast || moved >= Self.fastBytes) && !mustHurry()
            if isToWait != isPatient {
                channel.setPatience(isToWait ? Self.patience : 0)
                isPatient = isToWait
            }
            if !wasCut, channel.isCut.load(ordering: .relaxed) {
                wasCut = true
                limit = min(limit, moved + means.arrived)
                if moved == limit { return (moved, .wouldBlock) }
            }
            switch means.take(Int(clamping: limit - moved)) {
            case .moved:
                let (count, failure) = means.put(into: file, at: offset + moved)
                moved += count
                if failure != 0 { return (moved, .fileFailed(errno: failure)) }
            case .wouldBlockReading: return (moved, .wouldBlock)
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
    ///
    /// For the first byte: what waits to become more (SO_RCVLOWAT) leaves the caches, and copying it takes twice as long.
    private static let patience: Int32 = 10
}
