internal import Synchronization
internal import UploadModel

/// Parts that are being received on this node; a part that replaces a stored one counts only by the difference in size.
///
/// For uploads with a limit it also knows the size of all stored parts, from the first check of this process on.
final class ComingParts: Sendable {
    struct Part: Sendable {
        let number: Int
        /// Bytes; so far, if only its end reveals them.
        fileprivate(set) var size: Int64
        /// Size in bytes of the part stored under its number.
        fileprivate(set) var stored: Int64
    }

    /// The result of counting.
    enum Total: Equatable {
        case bytes(Int64)
        /// The sum does not fit.
        case tooMany
        /// A part was recorded without a turn since `beginCounting`: what was read may include it or not.
        case outdated
    }

    private struct Contents {
        var parts: [UploadID: [UInt64: Part]] = [:]
        var lastTicket: UInt64 = 0
        /// Bytes of all stored parts.
        var storedBytes: [UploadID: Int64] = [:]
        /// Uploads whose parts are being counted, and whether a part was recorded without a turn meanwhile.
        var counting: [UploadID: Bool] = [:]
        /// The number of parts that are being recorded without a turn.
        var recording: [UploadID: Int] = [:]
        var waiting: [UploadID: [CheckedContinuation<Void, Never>]] = [:]

        mutating func beginCounting(of id: UploadID) -> Bool {
            guard recording[id] == nil else { return false }
            counting[id] = false
            return true
        }
    }

    private let contents = Mutex(Contents())

    // MARK: Counting

    /// Waits until no part of the upload is being recorded without a turn; call it during a turn, before anything is read
    /// of the stored parts.
    ///
    /// A limit can begin while parts arrive; such parts must be either stored or coming when the parts are counted.
    func beginCounting(of id: UploadID) async {
        while !contents.withLock({ $0.beginCounting(of: id) }) {
            await withCheckedContinuation { continuation in
                let isOver = contents.withLock { contents in
                    if contents.recording[id] == nil { return true }
                    contents.waiting[id, default: []].append(continuation)
                    return false
                }
                if isOver { continuation.resume() }
            }
        }
    }

    func endCounting(of id: UploadID) { contents.withLock { $0.counting[id] = nil } }

    /// Maximum size of an upload after all parts in progress and one more have arrived; call it while counting.
    ///
    /// - Parameters:
    ///   - id: The upload.
    ///   - stored: Total size of its stored parts in bytes, read while counting.
    ///   - isKept: Whether to keep `stored` for the next time; false if other processes can add parts.
    ///   - part: The additional part.
    /// - Returns: Bytes, or why there are none.
    func total(of id: UploadID, having stored: Int64, isKept: Bool, with part: Part) -> Total {
        contents.withLock { contents in
            guard contents.counting[id] == false else { return .outdated }
            if isKept, contents.storedBytes[id] == nil {
                // Ended uploads are never asked for again, and reading a sum once more costs little.
                if contents.storedBytes.count >= Self.mostUploads { contents.storedBytes = [:] }
                contents.storedBytes[id] = stored
            }
            // If several have the same number, the largest may be the last to arrive.
            var additions = [part.number: max(0, part.size - part.stored)]
            for coming in (contents.parts[id] ?? [:]).values {
                additions[coming.number] = max(additions[coming.number] ?? 0, coming.size - coming.stored)
            }
            return Int64.sum([stored] + additions.values).map(Total.bytes) ?? .tooMany
        }
    }

    /// - Returns: A ticket for `remove`.
    func add(_ part: Part, of id: UploadID) -> UInt64 {
        contents.withLock { contents in
            contents.lastTicket += 1
            contents.parts[id, default: [:]][contents.lastTicket] = part
            return contents.lastTicket
        }
    }

    /// A part whose size only its end reveals may have this many bytes now.
    func extend(_ ticket: UInt64, of id: UploadID, to size: Int64) {
        contents.withLock { $0.parts[id]?[ticket]?.size = size }
    }

    /// Removes a part that has arrived or failed; has no effect the second time.
    ///
    /// - Parameters:
    ///   - ticket: A ticket from `add`.
    ///   - id: The upload.
    ///   - stored: Its final size, and by how much it increases the size of all stored parts; `nil` if it is not stored.
    func remove(_ ticket: UInt64, of id: UploadID, storing stored: (size: Int64, growth: Int64)?) {
        contents.withLock { contents in
            if let stored { contents.storedBytes[id]? += stored.growth }
            guard let part = contents.parts[id]?.removeValue(forKey: ticket) else { return }
            if let stored {
                for (other, coming) in contents.parts[id] ?? [:] where coming.number == part.number {
                    contents.parts[id]?[other]?.stored = stored.size
                }
            }
            if contents.parts[id]?.isEmpty == true { contents.parts[id] = nil }
        }
    }

    // MARK: Stored parts

    /// Total size of all stored parts in bytes, if it is known; call it during a turn.
    func storedBytes(of id: UploadID) -> Int64? { contents.withLock { $0.storedBytes[id] } }

    func forgetStoredBytes(of id: UploadID) { contents.withLock { $0.storedBytes[id] = nil } }

    private static let mostUploads = 10_000

    // MARK: Recording without a turn

    /// A part is being recorded for which no limit applied, so it takes no turn.
    func beginRecording(of id: UploadID) {
        contents.withLock { contents in
            contents.recording[id, default: 0] += 1
            if contents.counting[id] != nil { contents.counting[id] = true }
        }
    }

    func endRecording(of id: UploadID) {
        let waiting = contents.withLock { contents -> [CheckedContinuation<Void, Never>] in
            let left = (contents.recording[id] ?? 1) - 1
            contents.recording[id] = left > 0 ? left : nil
            return left > 0 ? [] : contents.waiting.removeValue(forKey: id) ?? []
        }
        for continuation in waiting { continuation.resume() }
    }

    /// Whether a check waits for parts that are being recorded.
    func isAwaited(_ id: UploadID) -> Bool { contents.withLock { $0.waiting[id] != nil } }
}

extension Int64 {
    /// The sum of numbers sent by clients.
    ///
    /// - Parameter numbers: All non-negative.
    /// - Returns: `nil` if the sum does not fit.
    static func sum(_ numbers: some Sequence<Int64>) -> Int64? {
        var sum: Int64 = 0
        for number in numbers {
            let (next, overflow) = sum.addingReportingOverflow(number)
            if overflow { return nil }
            sum = next
        }
        return sum
    }
}
