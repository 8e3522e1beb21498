internal import Bytes
internal import HTTPClient
internal import Synchronization

/// Content of a request that another task reads from a source, a few pieces ahead of the transfer.
final class StreamedContent: HTTPRequestContent {
    private struct Contents {
        /// Bytes that may still be asked for, in order; the first begins at `start`.
        var pieces: [[UInt8]] = []
        var start: Int64 = 0
        var hasFailed = false
        /// Whether the request has ended.
        var isOver = false
        var wake: (@Sendable () -> Void)?
        /// The reading task, waiting for room.
        var writer: CheckedContinuation<Void, Never>?

        var end: Int64 { pieces.reduce(start) { $0 + Int64($1.count) } }
    }

    private static let mostPieces = 3

    let length: Int64
    private let contents = Mutex(Contents())

    init(length: Int64) { self.length = length }

    // MARK: The reading task

    /// Adds bytes, and waits until there is room for more.
    ///
    /// - Returns: `false` if the request has ended and needs no more.
    func add(_ piece: [UInt8]) async -> Bool {
        let wake = contents.withLock { contents in
            contents.pieces.append(piece)
            return contents.wake
        }
        wake?()
        await withCheckedContinuation { continuation in
            let isNow = contents.withLock { contents in
                if contents.isOver || contents.pieces.count < Self.mostPieces { return true }
                contents.writer = continuation
                return false
            }
            if isNow { continuation.resume() }
        }
        return contents.withLock { !$0.isOver }
    }

    /// The source has no more bytes although the length is not reached.
    func fail() {
        let wake = contents.withLock { contents in
            contents.hasFailed = true
            return contents.wake
        }
        wake?()
    }

    /// The request has ended.
    func close() {
        let writer = contents.withLock { contents in
            contents.isOver = true
            contents.pieces = []
            defer { contents.writer = nil }
            return contents.writer
        }
        writer?.resume()
    }

    // MARK: The transfer

    func whenReadable(_ wake: @escaping @Sendable () -> Void) { contents.withLock { $0.wake = wake } }

    func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) -> HTTPContentRead {
        let (result, writer) = contents.withLock { contents -> (HTTPContentRead, CheckedContinuation<Void, Never>?) in
            // What was read once is asked for again only if it could not be used at once, not from the first byte.
            guard offset >= contents.start, !contents.isOver else { return (.failed, nil) }
            while let first = contents.pieces.first, offset >= contents.start + Int64(first.count) {
                contents.start += Int64(first.count)
                contents.pieces.removeFirst()
            }
            var writer: CheckedContinuation<Void, Never>?
            if contents.pieces.count < Self.mostPieces { swap(&writer, &contents.writer) }
            guard let first = contents.pieces.first else { return (contents.hasFailed ? .failed : .later, writer) }
            let position = Int(offset - contents.start)
            let count = min(buffer.count, first.count - position)
            first.withUnsafeBytes { bytes in
                buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[position..<position + count]))
            }
            return (.bytes(count), writer)
        }
        writer?.resume()
        return result
    }
}
