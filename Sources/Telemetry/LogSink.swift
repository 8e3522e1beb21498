internal import Foundation
internal import SystemIO

/// Writes log lines to a descriptor on its own thread, so that no caller ever waits for the log's reader.
///
/// Lines are buffered for at most a tenth of a second to save system calls. The buffer is bounded: when the reader
/// stalls and the buffer is full, lines are dropped and counted. One line reports the loss in their place as soon as
/// lines get through again.
///
/// Invariant for `@unchecked`: mutable state is touched only while `condition` is held.
package final class LogSink: @unchecked Sendable {
    /// Maximum bytes waiting to be written; as many more may be in the current write.
    package static let room = 4 << 20
    /// How long non-urgent lines are buffered.
    private static let delay = Duration.milliseconds(100)
    /// As many bytes are written at once, without a delay: memory that the processor's cache still has.
    private static let batch = 64 << 10

    private let descriptor: Int32
    private let room: Int
    /// Formats the line that reports lost lines.
    private let lossLine: @Sendable (UInt64) -> String
    private let condition = MonotonicCondition()
    private var pending: [UInt8] = []
    /// Memory of what was written, for what follows.
    private var spare: [UInt8] = []
    private var pendingLines: UInt64 = 0
    /// Lines lost since the last one in `pending`.
    private var unreported: UInt64 = 0
    /// Total of lost lines.
    private var lost: UInt64 = 0
    private var isUrgent = false
    private var isWriting = false
    /// Whether the last write failed.
    private var isBroken = false
    private var hasThread = false

    /// - Parameters:
    ///   - descriptor: Not closed by the sink.
    ///   - room: Maximum bytes waiting; further lines are dropped.
    ///   - lossLine: Formats the line that reports how many lines were lost.
    package init(
        descriptor: Int32 = 2,
        room: Int = LogSink.room,
        lossLine: @escaping @Sendable (UInt64) -> String = { "\($0) lines were lost" }
    ) {
        self.descriptor = descriptor
        self.room = room
        self.lossLine = lossLine
    }

    /// Number of lines lost since the start.
    package var lostCount: UInt64 { condition.locked { lost } }

    /// Takes one line, with or without its line feed, or drops it; never waits.
    package func append(_ line: String, isUrgent: Bool) {
        var line = line
        line.withUTF8 { append($0, isUrgent: isUrgent) }
    }

    /// The same for a line of UTF-8.
    func append(_ line: UnsafeBufferPointer<UInt8>, isUrgent: Bool) {
        condition.locked {
            if !hasThread { startThread() }
            // Once a line is dropped, so are all others until the backlog is on its way, because the loss is reported
            // in one place.
            guard unreported == 0, pending.count + line.count < room else {
                unreported += 1
                lost += 1
                if unreported == 1 { condition.broadcast() }
                return
            }
            pending.append(contentsOf: line)
            if pending.last != 10 { pending.append(10) }
            pendingLines += 1
            let isEnough = isUrgent || pending.count > min(room / 4, Self.batch)
            let isNews = pendingLines == 1 || (isEnough && !self.isUrgent)
            if isEnough { self.isUrgent = true }
            if isNews { condition.broadcast() }
        }
    }

    /// Returns when everything appended before the call was written, or the time is over; the rest may be lost.
    package func flush(within time: Duration) {
        let end = MonotonicClock.deadline(after: time)
        condition.locked {
            isUrgent = true
            condition.broadcast()
            while !isBroken, isWriting || pendingLines > 0 || unreported > 0 {
                if !condition.wait(until: end) { return }
            }
        }
    }

    /// The thread lives until the process ends, and so do the callers that log.
    private func startThread() {
        hasThread = true
        let thread = Thread { [self] in
            while true { writeNext() }
        }
        thread.name = "sluice.log"
        thread.stackSize = 512 * 1024
        thread.start()
    }

    /// Waits for lines and writes them.
    private func writeNext() {
        var bytes: [UInt8] = []
        let (lines, reported): (UInt64, UInt64) = condition.locked {
            while pendingLines == 0, unreported == 0 { condition.wait() }
            let end = MonotonicClock.deadline(after: Self.delay)
            while !isUrgent, unreported == 0 {
                if !condition.wait(until: end) { break }
            }
            isWriting = true
            isUrgent = false
            swap(&bytes, &pending)
            swap(&pending, &spare)
            defer { (pendingLines, unreported) = (0, 0) }
            return (pendingLines, unreported)
        }
        if reported > 0 { bytes.append(contentsOf: (lossLine(reported) + "\n").utf8) }
        let isWritten = write(bytes)
        // After a burst it is given back.
        bytes.removeAll(keepingCapacity: bytes.capacity <= 4 * Self.batch)
        condition.locked {
            swap(&bytes, &spare)
            isWriting = false
            isBroken = !isWritten
            if !isWritten {
                // It is unknown how many of them got through.
                unreported += lines + reported
                lost += lines
            }
            condition.broadcast()
        }
        // The reader is gone: do not retry for every line.
        if !isWritten { Thread.sleep(forTimeInterval: 0.1) }
    }

    /// - Returns: Whether all bytes were written. A failure to log never stops the caller.
    private func write(_ bytes: [UInt8]) -> Bool {
        var offset = 0
        while offset < bytes.count {
            let count = bytes.withUnsafeBytes { buffer in
                Foundation.write(descriptor, buffer.baseAddress.map { $0 + offset }, bytes.count - offset)
            }
            if count > 0 {
                offset += count
            } else if count < 0, errno == EAGAIN {
                // Another holder of the descriptor made it non-blocking.
                var poll = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                Foundation.poll(&poll, 1, -1)
            } else if count == 0 || errno != EINTR {
                return false
            }
        }
        return true
    }
}
