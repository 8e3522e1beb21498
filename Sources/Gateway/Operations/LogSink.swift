internal import Foundation
internal import Synchronization

/// Where lines go: a descriptor, by a thread of its own, so that nobody else ever waits for whoever reads them.
///
/// Lines are gathered for at most a tenth of a second, so that a line costs no system call. What is gathered is bounded:
/// when the reader stalls and the room is full, lines are lost, counted, and told of in their place as soon as lines get
/// through again.
///
/// Invariant for `@unchecked`: what is not constant is touched only while `condition` is held.
final class LogSink: @unchecked Sendable {
    /// Bytes that wait to be written; as many more may be on their way.
    static let room = 4 << 20
    /// How long lines are gathered that are not urgent.
    private static let delay = 0.1

    private let descriptor: Int32
    private let room: Int
    /// The line that tells how many were lost.
    private let lossLine: @Sendable (UInt64) -> String
    private let condition = NSCondition()
    private var pending: [UInt8] = []
    private var pendingLines: UInt64 = 0
    /// Lines that were lost since the last that is in `pending`.
    private var untold: UInt64 = 0
    /// All lines that were lost.
    private var lost: UInt64 = 0
    private var isUrgent = false
    private var isWriting = false
    /// The last write failed.
    private var isBroken = false
    private var hasThread = false

    /// - Parameters:
    ///   - descriptor: Not closed by the sink.
    ///   - room: Bytes that may wait; longer lines are lost.
    ///   - lossLine: Makes the line that tells how many lines were lost.
    init(
        descriptor: Int32 = 2,
        room: Int = LogSink.room,
        lossLine: @escaping @Sendable (UInt64) -> String = { "\($0) lines were lost" }
    ) {
        self.descriptor = descriptor
        self.room = room
        self.lossLine = lossLine
    }

    /// Lines that were lost since the start.
    var lostCount: UInt64 { locked { lost } }

    /// Takes one line, with or without its line feed, or loses it; never waits.
    func append(_ line: String, isUrgent: Bool) {
        locked {
            if !hasThread { startThread() }
            // After the first lost line all are, until the others are on their way: the one that tells of it has one place.
            guard untold == 0, pending.count + line.utf8.count < room else {
                untold += 1
                lost += 1
                if untold == 1 { condition.broadcast() }
                return
            }
            pending.append(contentsOf: line.utf8)
            if pending.last != 10 { pending.append(10) }
            pendingLines += 1
            let isEnough = isUrgent || pending.count > room / 4
            let isNews = pendingLines == 1 || (isEnough && !self.isUrgent)
            if isEnough { self.isUrgent = true }
            if isNews { condition.broadcast() }
        }
    }

    /// Returns when everything was written that was taken before, or when the time is over; that may be lost.
    func flush(within seconds: Double) {
        let end = Date(timeIntervalSinceNow: seconds)
        locked {
            isUrgent = true
            condition.broadcast()
            while !isBroken, isWriting || pendingLines > 0 || untold > 0 {
                if !condition.wait(until: end) { return }
            }
        }
    }

    private func locked<Result>(_ body: () -> Result) -> Result {
        condition.lock()
        defer { condition.unlock() }
        return body()
    }

    /// It stays until the process ends, as whoever logs does.
    private func startThread() {
        hasThread = true
        let thread = Thread { [self] in
            while true { writeNext() }
        }
        thread.name = "sluice.log"
        thread.stackSize = 512 * 1024
        thread.start()
    }

    /// Waits for lines, and writes them.
    private func writeNext() {
        let (bytes, lines, told): ([UInt8], UInt64, UInt64) = locked {
            while pendingLines == 0, untold == 0 { condition.wait() }
            let end = Date(timeIntervalSinceNow: Self.delay)
            while !isUrgent, untold == 0 {
                if !condition.wait(until: end) { break }
            }
            isWriting = true
            isUrgent = false
            defer { (pending, pendingLines, untold) = ([], 0, 0) }
            let notice = untold > 0 ? Array((lossLine(untold) + "\n").utf8) : []
            return (pending + notice, pendingLines, untold)
        }
        let isWritten = write(bytes)
        locked {
            isWriting = false
            isBroken = !isWritten
            if !isWritten {
                // How many of them got through nobody knows.
                untold += lines + told
                lost += lines
            }
            condition.broadcast()
        }
        // Nobody reads: no use in trying again for every line.
        if !isWritten { Thread.sleep(forTimeInterval: Self.delay) }
    }

    /// - Returns: Whether all of it was written; a log that cannot be written does not stop what it tells of.
    private func write(_ bytes: [UInt8]) -> Bool {
        var offset = 0
        while offset < bytes.count {
            let count = bytes.withUnsafeBytes { buffer in
                Foundation.write(descriptor, buffer.baseAddress.map { $0 + offset }, bytes.count - offset)
            }
            if count > 0 {
                offset += count
            } else if count < 0, errno == EAGAIN {
                // Somebody else made it non-blocking.
                var poll = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                Foundation.poll(&poll, 1, -1)
            } else if count == 0 || errno != EINTR {
                return false
            }
        }
        return true
    }
}
