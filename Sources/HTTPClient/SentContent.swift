internal import CCurl
internal import Glibc

/// How far the content of one hop was handed to libcurl; touched on the loop's thread only.
struct SentContent {
    /// Larger buffers cost less for each byte; each transfer that sends has one of its own.
    private static let largestBuffer = 64 << 10
    /// The smallest that libcurl takes.
    private static let smallestBuffer = 16 << 10

    let length: Int64
    /// The content said that the rest will not come.
    private(set) var hasFailed = false
    /// libcurl waits until it is resumed.
    private(set) var isPaused = false

    private let content: any HTTPRequestContent
    private var offset: Int64 = 0

    init(_ content: any HTTPRequestContent) {
        self.content = content
        length = content.length
    }

    /// Bytes that libcurl reads at once.
    var bufferSize: Int { Int(min(Int64(Self.largestBuffer), max(Int64(Self.smallestBuffer), length))) }

    /// Not all of it was handed over.
    var isIncomplete: Bool { offset < length }

    /// - Returns: What `CURLOPT_READFUNCTION` returns.
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

    /// The last read is to be made again later.
    mutating func pause(takingBack count: Int) {
        isPaused = true
        offset -= Int64(count)
    }

    /// To the start, for a connection that is new.
    ///
    /// - Returns: What `CURLOPT_SEEKFUNCTION` returns.
    mutating func seek(to offset: Int64, from origin: Int32) -> Int32 {
        guard origin == SEEK_SET, (0...length).contains(offset) else { return ccurl_seek_failed }
        self.offset = offset
        return ccurl_seek_done
    }
}
