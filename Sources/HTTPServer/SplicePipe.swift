internal import CSystem
internal import Glibc
internal import Transport

/// A pipe that carries bytes from a socket to a file inside the kernel.
///
/// Invariant for `@unchecked`: in the cache, or used by one thread.
final class SplicePipe: @unchecked Sendable {
    /// The default limit for an unprivileged process.
    static let size: Int32 = 1 << 20

    fileprivate let reader: Int32
    fileprivate let writer: Int32
    /// Bytes in the pipe.
    fileprivate var count = 0

    /// - Returns: `nil` if the system has no pipes left.
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

    /// Whether it is empty: nothing is left that could not be written.
    var isClean: Bool { count == 0 }
}

/// The `SocketReader` of a plain connection.
struct PipeReader: SocketReader {
    let pipe: SplicePipe
    let channel: Channel

    func take(_ limit: Int) -> IOResult {
        while true {
            let taken = csys_splice_in(channel.descriptor, pipe.writer, min(limit, Int(SplicePipe.size)))
            if taken > 0 {
                pipe.count = Int(taken)
                return .moved(Int(taken))
            }
            if taken == 0 { return .ended }
            let code = errno
            if code == EINTR { continue }
            return code == EAGAIN ? .wouldBlockReading : .failed(errno: code)
        }
    }

    func put(into file: Int32, at offset: Int64) -> (moved: Int64, failure: Int32) {
        var position = offset
        var moved: Int64 = 0
        while pipe.count > 0 {
            let written = csys_splice_out(pipe.reader, file, &position, pipe.count)
            if written > 0 {
                pipe.count -= Int(written)
                moved += written
            } else if written == 0 || errno != EINTR {
                return (moved, written == 0 ? EIO : errno)
            }
        }
        return (moved, 0)
    }

    var arrived: Int64 { Int64(channel.lentReadableCount) }
}
