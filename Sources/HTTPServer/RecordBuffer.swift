internal import Glibc
internal import Transport

/// The means of an encrypted connection: records are decrypted into a buffer and written to the file from there.
///
/// Invariant: `buffer` is allocated from `init` to `deinit`; its first `count` bytes are taken and not put.
final class RecordBuffer: BulkMeans {
    private let channel: Channel
    private let session: TLSSession
    private let buffer: UnsafeMutableRawBufferPointer
    private var count = 0

    /// - Parameters:
    ///   - channel: Lent to the thread that uses this.
    ///   - session: That of the channel.
    ///   - size: Bytes that are written to the file at once.
    init(_ channel: Channel, _ session: TLSSession, size: Int) {
        self.channel = channel
        self.session = session
        buffer = .allocate(byteCount: size, alignment: 64)
    }

    deinit {
        buffer.deallocate()
    }

    func take(_ limit: Int) -> IOResult {
        let result = session.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<min(limit, buffer.count)]))
        if case .moved(let taken) = result { count = taken }
        return result
    }

    func put(into file: Int32, at offset: Int64) -> (moved: Int64, failure: Int32) {
        defer { count = 0 }
        var written = 0
        while written < count {
            let result = pwrite(file, buffer.baseAddress.map { $0 + written }, count - written, Int(offset) + written)
            if result > 0 {
                written += result
            } else if result == 0 || errno != EINTR {
                return (Int64(written), result == 0 ? EIO : errno)
            }
        }
        return (Int64(written), 0)
    }

    /// A record is longer than what it holds, and one may have come in part.
    var arrived: Int64 { Int64(channel.readableCount) }
}
