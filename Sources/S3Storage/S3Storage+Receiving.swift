internal import UploadCore

/// How bytes are kept that the store has not confirmed.
extension S3Storage {
    /// Keeps a piece in memory, or else in a spool file.
    ///
    /// - Parameters:
    ///   - piece: Comes behind what the buffer has.
    ///   - buffer: Of a part.
    ///   - relieve: Waits for memory of the same upload to become free; `false` if there is none.
    /// - Returns: `false` when there is no room for the piece in time.
    /// - Throws: What `relieve` throws.
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
            if buffer.file == nil, await memory.take(needed, within: settings.retryTime) {
                buffer.append(piece)
                return true
            }
            guard ContinuousClock.now < deadline else { return false }
            try? await Task.sleep(for: .milliseconds(100))
        }
    }

    /// Whether bytes that are still to come will be there so soon that the store can wait for them.
    ///
    /// - Parameters:
    ///   - rest: How many.
    ///   - taken: Bytes that have come.
    ///   - beginning: Since when.
    /// - Returns: Not if they come too slowly.
    static func comesSoon(_ rest: Int64, after taken: Int64, since beginning: ContinuousClock.Instant) -> Bool {
        let seconds = (ContinuousClock.now - beginning) / .seconds(1)
        let rate = Double(taken) / max(seconds, 0.001)
        return Double(rest) / rate < Self.longestWait
    }

    /// Seconds.
    private static let longestWait = 5.0
}
