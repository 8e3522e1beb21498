import HTTPClient
import Synchronization

/// Content that is complete from the start; each byte is derived from its offset.
final class PatternContent: HTTPRequestContent {
    let length: Int64

    init(_ length: Int) { self.length = Int64(length) }

    static func byte(_ offset: Int) -> UInt8 { UInt8(truncatingIfNeeded: offset &* 31 &+ offset >> 8) }

    static func bytes(_ count: Int) -> [UInt8] { (0..<count).map(byte) }

    func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) -> HTTPContentRead {
        for index in buffer.indices { buffer[index] = Self.byte(Int(offset) + index) }
        return .bytes(buffer.count)
    }

    func whenReadable(_ wake: @escaping @Sendable () -> Void) {}
}

/// Content that a test appends to piece by piece.
final class PiecedContent: HTTPRequestContent {
    private struct State {
        var bytes: [UInt8] = []
        var hasFailed = false
        var wake: (@Sendable () -> Void)?
        var pausedAt: Int?
        var starts = 0
    }

    let length: Int64
    private let state = Mutex(State())

    init(_ length: Int) { self.length = Int64(length) }

    /// Number of reads at offset 0 that returned bytes.
    var starts: Int { state.withLock { $0.starts } }

    func append(_ bytes: some Sequence<UInt8>) {
        state.withLock { $0.bytes += bytes }
        wake()
    }

    func fail() {
        state.withLock { $0.hasFailed = true }
        wake()
    }

    func wake() { state.withLock { $0.wake }?() }

    /// Returns when everything that was appended has been read, and a later read found nothing.
    func paused(at offset: Int) async {
        while state.withLock({ $0.pausedAt }) != offset { await Task.yield() }
    }

    func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) -> HTTPContentRead {
        state.withLock { state in
            if state.hasFailed { return .failed }
            let left = state.bytes.dropFirst(Int(offset)).prefix(buffer.count)
            guard !left.isEmpty else {
                state.pausedAt = Int(offset)
                return .later
            }
            if offset == 0 { state.starts += 1 }
            buffer.copyBytes(from: left)
            return .bytes(left.count)
        }
    }

    func whenReadable(_ wake: @escaping @Sendable () -> Void) { state.withLock { $0.wake = wake } }
}
