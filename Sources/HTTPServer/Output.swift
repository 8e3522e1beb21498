internal import Bytes
internal import HTTPWire
internal import SystemIO
internal import Transport

/// The sending side of a connection.
///
/// Must be used on its loop.
final class Output {
    private let channel: Channel
    private let pool: BlockingPool
    private let timeout: Nanoseconds
    /// Number of bytes sent on the connection.
    private(set) var sent: Int64 = 0

    init(channel: Channel, pool: BlockingPool, timeout: Nanoseconds) {
        self.channel = channel
        self.pool = pool
        self.timeout = timeout
    }

    /// Sends `bytes` as far as possible without waiting.
    ///
    /// - Returns: Number of bytes sent; `write` continues from there and reports any error.
    func writeAtOnce(_ bytes: [UInt8]) -> Int {
        guard case .moved(let count) = bytes.withUnsafeBytes({ channel.write($0) }) else { return 0 }
        sent += Int64(count)
        return count
    }

    /// Sends all of `bytes` from `start`; `more` means that further bytes follow at once and can share a packet.
    func write(_ bytes: [UInt8], from start: Int = 0, more: Bool = false) async throws(SinkFailure) {
        var offset = start
        while offset < bytes.count {
            let result = bytes.withUnsafeBytes { buffer in
                channel.write(UnsafeRawBufferPointer(rebasing: buffer[offset...]), more: more)
            }
            if case .moved(let count) = result {
                offset += count
                sent += Int64(count)
            } else {
                try await wait(after: result)
            }
        }
    }

    /// Sends a region of a file: within the kernel on a plain connection, through memory under TLS.
    ///
    /// - Throws: `.lengthMismatch` if the file is shorter than the region.
    func send(_ region: FileRegion) async throws(SinkFailure) {
        if channel.tls == nil {
            try await sendWithinKernel(region)
        } else {
            try await sendThroughMemory(region)
        }
    }

    private func sendWithinKernel(_ region: FileRegion) async throws(SinkFailure) {
        let socket = channel.descriptor
        let end = region.offset + region.length
        var offset = region.offset
        while offset < end {
            channel.willWriteOnOtherThread()
            let from = offset
            // The pages may have to be read from the disk, so this does not run on the loop.
            let (position, result) = await channel.lend(to: pool) { _, io -> (Int64, IOResult) in
                var position = from
                while position < end {
                    let result = IOResult(writing: {
                        let count = Int(min(end - position, 1 << 20))
                        return io.calls.sendfile(region.file.descriptor, at: position, count: count, to: socket)
                    })
                    guard case .moved(let count) = result else { return (position, result) }
                    // The file is shorter than the region.
                    if count == 0 { return (position, .ended) }
                    position += Int64(count)
                }
                return (position, .moved(0))
            }
            sent += position - offset
            offset = position
            if result == .ended { throw .lengthMismatch }
            try await wait(after: result)
        }
    }

    private func sendThroughMemory(_ region: FileRegion) async throws(SinkFailure) {
        let end = region.offset + region.length
        var offset = region.offset
        while offset < end {
            let from = offset
            let piece = await pool.run { io in
                // The client learns of a failure by the end of the connection, as it does of a short file.
                (try? io.read(region.file, at: from, maximum: Int(min(end - from, 262_144)))) ?? []
            }
            if piece.isEmpty { throw .lengthMismatch }
            try await write(piece, more: true)
            offset += Int64(piece.count)
        }
    }

    private func wait(after result: IOResult) async throws(SinkFailure) {
        do throws(Channel.WaitFailure) {
            try await channel.wait(after: result, until: MonotonicClock.deadline(after: timeout))
        } catch {
            throw error == .timedOut ? .timedOut : .disconnected
        }
    }
}

/// Receives the content of a streamed response.
final class ContentSink: ByteSink {
    private let output: Output
    /// Bytes still to come, if the length is known; `nil` for chunked coding or until the connection ends.
    private(set) var remaining: Int64?
    private let isChunked: Bool
    private let watch: PeerWatch

    init(output: Output, length: Int64?, isChunked: Bool, watch: PeerWatch) {
        self.output = output
        self.watch = watch
        remaining = length
        self.isChunked = isChunked
    }

    func whenGone(_ action: @escaping @Sendable () -> Void) { watch.begin(action) }

    func write(_ bytes: [UInt8]) async throws(SinkFailure) {
        if bytes.isEmpty { return }
        if let left = remaining {
            guard left >= Int64(bytes.count) else { throw .lengthMismatch }
            remaining = left - Int64(bytes.count)
        }
        if isChunked {
            try await output.write(ChunkedEncoder.chunk(bytes))
        } else {
            try await output.write(bytes)
        }
    }
}
