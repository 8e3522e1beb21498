internal import CSystem
internal import Glibc
internal import SystemIO
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

    func take(_ limit: Int, _ io: BlockingIO) -> IOResult {
        let result = IOResult(reading: {
            io.calls.splice(
                socket: channel.descriptor,
                toPipe: pipe.writer,
                count: min(limit, Int(SplicePipe.size))
            )
        })
        if case .moved(let count) = result { pipe.count = count }
        return result
    }

    func put(into file: OpenFile, at offset: Int64, _ io: BlockingIO) -> (moved: Int64, failure: Int32) {
        var moved: Int64 = 0
        while pipe.count > 0 {
            let result = SystemResult.repeating {
                io.calls.splice(pipe: pipe.reader, toFile: file.descriptor, at: offset + moved, count: pipe.count)
            }
            guard result.value > 0 else { return (moved, result.errno ?? EIO) }
            pipe.count -= result.value
            moved += Int64(result.value)
        }
        return (moved, 0)
    }

    var arrived: Int64 { Int64(channel.lentReadableCount) }
}
