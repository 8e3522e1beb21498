internal import CCurl
internal import Glibc

/// The upload state of one attempt's content; accessed only on the loop's thread.
struct SentContent {
    /// Larger buffers cost less per byte; each sending transfer has its own buffer.
    private static let largestBuffer = 64 << 10
    /// The minimum of libcurl.
    private static let smallestBuffer = 16 << 10

    let length: Int64
    /// Whether the content reported that the rest is not available.
    private(set) var hasFailed = false
    /// Whether libcurl waits to be resumed.
    private(set) var isPaused = false

    private let content: any HTTPRequestContent
    private var offset: Int64 = 0

    init(_ content: any HTTPRequestContent) {
        self.content = content
        length = content.length
    }

    /// Bytes per read of libcurl.
    var bufferSize: Int { Int(min(Int64(Self.largestBuffer), max(Int64(Self.smallestBuffer), length))) }

    /// Whether part of the content was not passed to libcurl yet.
    var isIncomplete: Bool { offset < length }

    /// - Returns: The result for `CURLOPT_READFUNCTION`.
    mutating func read(into buffer: UnsafeMutableRawBufferPointer, for transfer: Transfer) -> Int {
        let room = Int(min(Int64(buffer.count), length - offset))
        if room <= 0 { return 0 }
        transfer.willReadContent()
        switch content.read(at: offset, into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<room])) {
        case .bytes(let count) where count > 0 && count <= room:
            offset += Int64(count)
            return count
        case .later:
            isPaused = true
            transfer.waitForContent()
            return ccurl_read_pause
        case .bytes, .failed:
            hasFailed = true
            return ccurl_read_abort
        }
    }

    mutating func resumed() { isPaused = false }

    /// Undoes the last read, which will be repeated later.
    mutating func pause(takingBack count: Int) {
        isPaused = true
        offset -= Int64(count)
    }

    /// Rewinds to the start for a new connection.
    ///
    /// - Returns: The result for `CURLOPT_SEEKFUNCTION`.
    mutating func seek(to offset: Int64, from origin: Int32) -> Int32 {
        guard origin == SEEK_SET, (0...length).contains(offset) else { return ccurl_seek_failed }
        self.offset = offset
        return ccurl_seek_done
    }
}
