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

    /// Moves bytes until `limit`, an end, or until nothing has come for `patience` ms on a connection that is fast.
    ///
    /// Blocks while the file blocks. When it returns, the pipe is empty or soiled.
    mutating func move(
        from socket: Int32,
        to file: Int32,
        at offset: Int64,
        limit: Int64,
        patience: Int32,
        isCut: borrowing Atomic<Bool>
    ) -> (moved: Int64, end: End) {
        var position = offset
        var moved: Int64 = 0
        while moved < limit {
            if isCut.load(ordering: .relaxed) { return (moved, .wouldBlock) }
            let taken = csys_splice_in(socket, writer, Int(min(limit - moved, Int64(Self.size))))
            if taken == 0 { return (moved, .ended) }
            if taken < 0 {
                let code = errno
                if code == EINTR { continue }
                guard code == EAGAIN else { return (moved, .socketFailed(errno: code)) }
                // Waiting here for a moment is cheaper than a way back to the loop, but only where more comes at once.
                if moved >= 262_144, csys_wait_readable(socket, patience) > 0 { continue }
                return (moved, .wouldBlock)
            }
            var left = Int64(taken)
            while left > 0 {
                let written = csys_splice_out(reader, file, &position, Int(left))
                if written > 0 {
                    left -= Int64(written)
                    moved += Int64(written)
                } else if written < 0, errno == EINTR {
                    continue
                } else {
                    isSoiled = true
                    return (moved, .fileFailed(errno: written == 0 ? EIO : errno))
                }
            }
        }
        return (moved, .limitReached)
    }
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
