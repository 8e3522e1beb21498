internal import Synchronization

/// Parts that come at this moment, on this node.
///
/// With what is stored they are one ledger: a part that comes in place of a stored one counts by what it has more, and is no
/// longer coming in the same turn of its upload (`UploadService.edits`) in which it is recorded.
final class ComingParts: Sendable {
    struct Part: Sendable {
        let number: Int
        /// Bytes.
        let size: Int64
        /// Bytes of the part that is stored under its number.
        fileprivate(set) var stored: Int64
    }

    private struct Contents {
        var parts: [UploadID: [UInt64: Part]] = [:]
        var lastTicket: UInt64 = 0
    }

    private let contents = Mutex(Contents())

    /// Bytes that an upload will have at most when all parts are there, of those that come and one more.
    ///
    /// - Parameters:
    ///   - id: The upload.
    ///   - stored: Bytes of its stored parts.
    ///   - part: The one that is to come.
    /// - Returns: `nil` for more than a number can hold.
    func total(of id: UploadID, having stored: Int64, with part: Part) -> Int64? {
        // Of several with one number the largest may be the last.
        var additions: [Int: Int64] = [:]
        for coming in contents.withLock({ Array(($0.parts[id] ?? [:]).values) }) + [part] {
            additions[coming.number] = max(additions[coming.number] ?? 0, coming.size - coming.stored)
        }
        return Int64.sum([stored] + additions.values)
    }

    /// - Returns: By which it is removed.
    func add(_ part: Part, of id: UploadID) -> UInt64 {
        contents.withLock { contents in
            contents.lastTicket += 1
            contents.parts[id, default: [:]][contents.lastTicket] = part
            return contents.lastTicket
        }
    }

    /// A part comes no more; nothing happens if it was told before.
    ///
    /// - Parameters:
    ///   - ticket: As `add` gave it.
    ///   - id: The upload.
    ///   - isStored: It is stored now.
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
    /// Of numbers that clients tell.
    ///
    /// - Parameter numbers: Not negative.
    /// - Returns: `nil` for more than a number can hold.
    static func sum(_ numbers: some Sequence<Int64>) -> Int64? {
        var sum: Int64 = 0
        for number in numbers {
            let (next, overflow) = sum.addingReportingOverflow(number)
            if overflow { return nil }
            sum = next
        }
        return sum
    }

    /// As near as a number can be.
    func adding(_ other: Int64) -> Int64 {
        let (sum, overflow) = addingReportingOverflow(other)
        if overflow { return other < 0 ? .min : .max }
        return sum
    }
}
