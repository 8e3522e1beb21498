internal import UploadModel

/// Buffering of bytes that the store has not confirmed.
extension S3Storage {
    /// Buffers a piece in memory, or in a spool file if memory is short.
    ///
    /// - Parameters:
    ///   - piece: Appended to the buffer.
    ///   - buffer: The buffer of a part.
    ///   - relieve: Waits until the same upload releases memory; returns `false` if it holds none.
    /// - Returns: `false` if there is no room for the piece in time.
    /// - Throws: The error of `relieve`.
    func keep(
        _ piece: [UInt8],
        in buffer: PartBuffer,
        relieving relieve: () async throws(UploadError) -> Bool
    ) async throws(UploadError) -> Bool {
        let deadline = ContinuousClock.now + settings.retryTime
        while true {
            if let file = buffer.file {
                if await file.append(piece) {
                    buffer.appendSpooled(piece.count)
                    return true
                }
            } else if memory.take(buffer.memory(adding: piece.count)) {
                buffer.append(piece)
                return true
            }
            hashes.flush()
            if try await relieve() { continue }
            if buffer.file == nil, let file = await spool.makeFile(), await file.append(piece) {
                buffer.spool(to: file)
                buffer.appendSpooled(piece.count)
                return true
            }
            let needed = buffer.memory(adding: piece.count)
            if buffer.file == nil, await takeMemory(needed, within: settings.retryTime) {
                buffer.append(piece)
                return true
            }
            guard ContinuousClock.now < deadline else { return false }
            arrivals.endSlowest()
            try? await Task.sleep(for: .milliseconds(100))
        }
    }

    /// Like `MemoryPool.take`; meanwhile slow requests that hold memory are ended.
    func takeMemory(_ bytes: Int, within limit: Duration) async -> Bool {
        if memory.take(min(bytes, memory.capacity)) { return true }
        // Owned by this call, and cancelled as soon as the wait is over.
        let relief = Task { [arrivals] in
            while !Task.isCancelled {
                arrivals.endSlowest()
                try? await Task.sleep(for: PartArrivals.pause)
            }
        }
        defer { relief.cancel() }
        return await memory.take(bytes, within: limit)
    }

    /// Whether the rest of a part will arrive so soon that the store can wait for it.
    ///
    /// - Parameters:
    ///   - rest: Number of bytes still to come.
    ///   - taken: Number of bytes received.
    ///   - beginning: When the first byte arrived.
    /// - Returns: `false` if they arrive too slowly.
    static func arrivesSoon(_ rest: Int64, after taken: Int64, since beginning: ContinuousClock.Instant) -> Bool {
        let seconds = (ContinuousClock.now - beginning) / .seconds(1)
        let rate = Double(taken) / max(seconds, 0.001)
        return Double(rest) / rate < Self.longestWait
    }

    /// In seconds.
    private static let longestWait = 5.0
}
