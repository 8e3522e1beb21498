internal import Glibc
internal import SystemIO
internal import Transport

/// Memory for decrypted TLS records that are about to be written.
///
/// Invariant for `@unchecked`: in the cache, or used by one thread. `bytes` is mapped from `init` to `deinit`.
final class RecordBuffer: @unchecked Sendable {
    /// Bytes per write to the file: several records, but few enough to stay in the CPU caches.
    static let size = 131_072

    fileprivate let bytes: UnsafeMutableRawBufferPointer

    /// Memory-mapped, because large blocks that come and go would fragment the heap.
    ///
    /// - Returns: `nil` if the system has no memory left.
    init?() {
        let pages = mmap(nil, Self.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        guard pages != MAP_FAILED else { return nil }
        bytes = UnsafeMutableRawBufferPointer(start: pages, count: Self.size)
    }

    deinit {
        munmap(bytes.baseAddress, bytes.count)
    }
}

/// The `SocketReader` of an encrypted connection: decrypts records into a buffer and writes it to the file.
final class RecordReader: SocketReader {
    private let buffer: RecordBuffer
    private let channel: Channel
    private let session: TLSSession
    /// Bytes in the buffer that are not written yet.
    private var count = 0

    init(_ buffer: RecordBuffer, _ channel: Channel, _ session: TLSSession) {
        self.buffer = buffer
        self.channel = channel
        self.session = session
    }

    func take(_ limit: Int, _ io: BlockingIO) -> IOResult {
        let room = UnsafeMutableRawBufferPointer(rebasing: buffer.bytes[..<min(limit, RecordBuffer.size)])
        let result = session.read(into: room)
        if case .moved(let taken) = result { count = taken }
        return result
    }

    func put(into file: OpenFile, at offset: Int64, _ io: BlockingIO) -> (moved: Int64, failure: Int32) {
        defer { count = 0 }
        let (written, failure) = io.write(
            UnsafeRawBufferPointer(rebasing: buffer.bytes[..<count]),
            to: file,
            at: offset
        )
        return (Int64(written), failure?.errno ?? 0)
    }

    /// An upper bound: a record is longer than its content, and the last one may be incomplete.
    var arrived: Int64 { Int64(channel.lentReadableCount) }
}
