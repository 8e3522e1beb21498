internal import Glibc
internal import Synchronization

/// Disk space that is kept for work that frees space, such as a deletion, which must record what it does.
///
/// It is a file whose blocks are allocated. While such work runs and the file system has no room, the file gets shorter,
/// step by step, and afterwards it is filled up again. Until it is whole, other work must not write: it would use up what was
/// given back for a deletion.
///
/// Other processes may take the space that a step gives back; the next step then follows.
package final class SpaceReserve: Sendable {
    /// Enough for the deletion of an upload of 10,000 parts, which changes two megabytes of the state; in bytes.
    private static let usualSize: Int64 = 8 << 20
    /// Bytes that are given back at once; with fewer free ones, the file system counts as full.
    static let step: Int64 = 1 << 20
    /// Bytes that are allocated at once when it is filled; with less room, down to a block.
    private static let portions: [Int64] = [256 << 10, 64 << 10, 16 << 10, 4 << 10]
    /// Nanoseconds for which it counts as whole without a look at the file, which other processes may have used.
    private static let trust: Nanoseconds = 1_000_000_000

    private struct Condition {
        /// Work that may need what was given back.
        var borrowers = 0
        /// The file system cannot allocate blocks ahead.
        var isUnsupported = false
        var isTrustedUntil: Nanoseconds = 0
    }

    private let file: OpenFile
    private let size: Int64
    private let condition = Mutex(Condition())

    /// - Parameters:
    ///   - file: Nothing else is in it; it may be shared with other processes.
    ///   - size: Its size when it is whole; by default 8 MiB, and less on a very small file system.
    package init(_ file: OpenFile, size: Int64? = nil) {
        self.file = file
        self.size = size ?? Self.size(for: file)
    }

    private static func size(for file: OpenFile) -> Int64 {
        var status = statvfs()
        guard fstatvfs(file.descriptor, &status) == 0 else { return usualSize }
        return min(usualSize, max(step, bytes(status.f_blocks, of: status) / 8))
    }

    private static func bytes(_ blocks: UInt, of status: statvfs) -> Int64 {
        let size = Int64(clamping: status.f_frsize)
        let (bytes, overflow) = Int64(clamping: blocks).multipliedReportingOverflow(by: size)
        return overflow ? .max : bytes
    }

    /// Whether work that does not free space may write: the reserve is whole, or could be filled now.
    ///
    /// Makes no system call most of the time.
    package func hasRoom(_ io: BlockingIO) -> Bool {
        condition.withLock { condition in
            if condition.isUnsupported || MonotonicClock.now < condition.isTrustedUntil { return true }
            guard isWhole(io) || condition.borrowers == 0 && fill(io, &condition) else { return false }
            condition.isTrustedUntil = MonotonicClock.now + Self.trust
            return true
        }
    }

    /// Fills it up with the space that there is now.
    package func fill(_ io: BlockingIO) {
        _ = hasRoom(io)
    }

    /// Runs work that frees space; on a full file system it is repeated with more and more of the reserve.
    ///
    /// - Parameters:
    ///   - io: Of the thread.
    ///   - keepsHalf: Whether half of the reserve is kept for other work.
    ///   - isFull: Whether a failure means that there was no room.
    ///   - work: Has no effect if it fails because there is no room.
    ///   - returnSpace: Called after work that used the reserve, to give back space that is not needed any more.
    /// - Returns: What the last run of `work` returned.
    package func lend<Value, Failure: Error>(
        _ io: BlockingIO,
        keepsHalf: Bool = false,
        isFull: (Failure) -> Bool,
        to work: () -> Result<Value, Failure>,
        returnSpace: () -> Void = {}
    ) -> Result<Value, Failure> {
        condition.withLock { $0.borrowers += 1 }
        // First: not all that needs room reports the lack of it.
        let kept = keepsHalf ? size / 2 : 0
        var isUsed = isScarce && giveBack(io, keeping: kept)
        var result = work()
        while case .failure(let failure) = result, isFull(failure), giveBack(io, keeping: kept) {
            isUsed = true
            result = work()
        }
        if isUsed { returnSpace() }
        condition.withLock { condition in
            condition.borrowers -= 1
            if isUsed, condition.borrowers == 0 { _ = fill(io, &condition) }
        }
        return result
    }

    /// Whether less than a step is free.
    private var isScarce: Bool {
        var status = statvfs()
        guard fstatvfs(file.descriptor, &status) == 0 else { return false }
        // `f_bfree` also has the blocks for root only, and on ext4 some that cannot be allocated at all.
        return Self.bytes(status.f_bavail, of: status) < Self.step
    }

    private func isWhole(_ io: BlockingIO) -> Bool {
        guard let status = try? io.status(of: file) else { return false }
        return status.size >= size && status.allocated >= size
    }

    /// - Returns: Whether anything was left.
    private func giveBack(_ io: BlockingIO, keeping kept: Int64) -> Bool {
        condition.withLock { condition in
            condition.isTrustedUntil = 0
            guard let length = try? io.size(of: file), length > kept else { return false }
            return (try? io.truncate(file, to: max(kept, length - Self.step))) != nil
        }
    }

    /// - Returns: Whether it is whole now.
    private func fill(_ io: BlockingIO, _ condition: inout Condition) -> Bool {
        guard let status = try? io.status(of: file) else { return false }
        // After a crash it can have holes.
        guard status.allocated >= status.size || allocate(0..<status.size, io, &condition) else { return false }
        var end = status.size
        var portions = Self.portions[...]
        while end < size, !condition.isUnsupported, let portion = portions.first {
            let next = min(end + portion, size)
            if (try? io.truncate(file, to: next)) != nil, allocate(end..<next, io, &condition) {
                end = next
            } else {
                try? io.truncate(file, to: end)
                portions = portions.dropFirst()
            }
        }
        return end >= size || condition.isUnsupported
    }

    private func allocate(_ range: Range<Int64>, _ io: BlockingIO, _ condition: inout Condition) -> Bool {
        let result = SystemResult.repeating {
            io.calls.fallocate(file.descriptor, at: range.lowerBound, count: Int64(range.count))
        }
        condition.isUnsupported = result.errno == EOPNOTSUPP || result.errno == ENOSYS
        return result.errno == nil || condition.isUnsupported
    }
}
