internal import Synchronization

/// Parts that are being received on this node; a part that replaces a stored one counts only by the difference in size.
final class ComingParts: Sendable {
    struct Part: Sendable {
        let number: Int
        /// Bytes.
        let size: Int64
        /// Size in bytes of the part stored under its number.
        fileprivate(set) var stored: Int64
    }

    private struct Contents {
        var parts: [UploadID: [UInt64: Part]] = [:]
        var lastTicket: UInt64 = 0
    }

    private let contents = Mutex(Contents())

    /// Maximum size of an upload after all parts in progress and one more have arrived.
    ///
    /// - Parameters:
    ///   - id: The upload.
    ///   - stored: Total size of its stored parts, in bytes.
    ///   - part: The additional part.
    /// - Returns: `nil` if the sum does not fit.
    func total(of id: UploadID, having stored: Int64, with part: Part) -> Int64? {
        // If several have the same number, the largest may be the last to arrive.
        var additions: [Int: Int64] = [:]
        for coming in contents.withLock({ Array(($0.parts[id] ?? [:]).values) }) + [part] {
            additions[coming.number] = max(additions[coming.number] ?? 0, coming.size - coming.stored)
        }
        return Int64.sum([stored] + additions.values)
    }

    /// - Returns: A ticket for `remove`.
    func add(_ part: Part, of id: UploadID) -> UInt64 {
        contents.withLock { contents in
            contents.lastTicket += 1
            contents.parts[id, default: [:]][contents.lastTicket] = part
            return contents.lastTicket
        }
    }

    /// Removes a part that has arrived or failed; has no effect the second time.
    ///
    /// - Parameters:
    ///   - ticket: A ticket from `add`.
    ///   - id: The upload.
    ///   - isStored: Whether the part is now stored.
    func remove(_ ticket: UInt64, of id: UploadID, isStored: Bool) {
        contents.withLock { contents in
            guard let part = contents.parts[id]?.removeValue(forKey: ticket) else { return }
            if isStored {
                for (other, coming) in contents.parts[id] ?? [:] where coming.number == part.number {
                    contents.parts[id]?[other]?.stored = part.size
                }
            }
            if contents.parts[id]?.isEmpty == true { contents.parts[id] = nil }
        }
    }
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

    /// Saturating addition.
    func adding(_ other: Int64) -> Int64 {
        let (sum, overflow) = addingReportingOverflow(other)
        if overflow { return other < 0 ? .min : .max }
        return sum
    }
}
