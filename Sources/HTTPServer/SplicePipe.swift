internal import CSystem
internal import Glibc
internal import Synchronization

/// A pipe through which bytes go from a socket to a file without leaving the kernel.
struct SplicePipe: ~Copyable, Sendable {
    /// As much as an unprivileged process may have in one pipe by default.
    static let size: Int32 = 1 << 20

    private let reader: Int32
    private let writer: Int32
    /// Bytes are left in it that could not be written, so nobody may use it again.
    private(set) var isSoiled = false

    init?() {
        var ends: (Int32, Int32) = (-1, -1)
        let result = withUnsafeMutableBytes(of: &ends) { bytes in
            csys_pipe(bytes.assumingMemoryBound(to: Int32.self).baseAddress, Self.size)
        }
        if result != 0 { return nil }
        reader = ends.0
        writer = ends.1
    }

    deinit {
        close(reader)
        close(writer)
    }

    enum End: Equatable, Sendable {
        case limitReached
        case wouldBlock
        /// The peer sends nothing more.
        case ended
        case socketFailed(errno: Int32)
        case fileFailed(errno: Int32)
    }

    /// Moves bytes until `limit`, an end, or until nothing more is there.
    ///
    /// Blocks while the file blocks. On a connection that is fast it waits for more here, because the way back to the loop
    /// costs more; and it lets the kernel gather half a pipe before it wakes this thread (SO_RCVLOWAT, socket(7)). When it
    /// returns, the mark is back at one byte, everything that had come is moved, and the pipe is empty or soiled.
    ///
    /// - Parameters:
    ///   - socket: Non-blocking.
    ///   - file: Open for writing.
    ///   - offset: Where in the file the first byte goes.
    ///   - limit: The most bytes to move.
    ///   - isFast: The connection brought much when it was last asked.
    ///   - mustHurry: Others wait for this thread.
    ///   - isCut: What has come by then is still moved, and nothing that comes later.
    /// - Returns: Bytes that are in the file, and why no more are.
    mutating func move(
        from socket: Int32,
        to file: Int32,
        at offset: Int64,
        limit: Int64,
        isFast: Bool,
        mustHurry: () -> Bool,
        isCut: borrowing Atomic<Bool>
    ) -> (moved: Int64, end: End) {
        var position = offset
        var moved: Int64 = 0
        var limit = limit
        var wasCut = false
        var mark: Int32 = 1
        var gaveUp = false
        defer { if mark != 1 { _ = csys_receive_low_water(socket, 1) } }
        while moved < limit {
            if !wasCut, isCut.load(ordering: .relaxed) {
                wasCut = true
                limit = min(limit, moved + Int64(max(0, csys_bytes_readable(socket))))
                if moved == limit { return (moved, .wouldBlock) }
            }
            let taken = csys_splice_in(socket, writer, Int(min(limit - moved, Int64(Self.size))))
            if taken == 0 { return (moved, .ended) }
            if taken < 0 {
                let code = errno
                if code == EINTR { continue }
                guard code == EAGAIN else { return (moved, .socketFailed(errno: code)) }
                guard isFast || moved >= Self.fastBytes, !gaveUp, !wasCut, !mustHurry() else {
                    return (moved, .wouldBlock)
                }
                let wanted = Int32(min(limit - moved, Int64(Self.size / 2)))
                if wanted != mark, csys_receive_low_water(socket, wanted) == 0 { mark = wanted }
                // Below the mark there may be bytes all the same: they are taken before this thread is given back.
                gaveUp = csys_wait_readable(socket, Self.patience) <= 0
                continue
            }
            var left = taken
            while left > 0 {
                let written = csys_splice_out(reader, file, &position, Int(left))
                if written > 0 {
                    left -= written
                    moved += written
                } else if written < 0, errno == EINTR {
                    continue
                } else {
                    isSoiled = true
                    return (moved, .fileFailed(errno: written == 0 ? EIO : errno))
                }
            }
        }
        return (moved, wasCut ? .wouldBlock : .limitReached)
    }

    /// A connection that brought so many bytes at once is fast.
    static let fastBytes: Int64 = 262_144
    /// How long this thread waits for more, in milliseconds.
    private static let patience: Int32 = 10
}

/// Pipes that wait for their next use: as many as were in use at once, at most `capacity`.
final class PipeCache: Sendable {
    private struct Idle: ~Copyable {
        var pipes: [PipeBox] = []
    }

    /// Invariant: in the cache or in the hands of one user.
    final class PipeBox: @unchecked Sendable {
        var pipe: SplicePipe
        init(_ pipe: consuming SplicePipe) { self.pipe = pipe }
    }

    private let capacity: Int
    private let idle = Mutex(Idle())

    init(capacity: Int) { self.capacity = capacity }

    /// An empty pipe; `nil` if the system has none to give.
    func take() -> PipeBox? {
        if let box = idle.withLock({ $0.pipes.popLast() }) { return box }
        guard let pipe = SplicePipe() else { return nil }
        return PipeBox(pipe)
    }

    func giveBack(_ box: PipeBox) {
        if box.pipe.isSoiled { return }
        idle.withLock { if $0.pipes.count < capacity { $0.pipes.append(box) } }
    }
}
