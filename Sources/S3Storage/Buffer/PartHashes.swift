internal import Digests
internal import Foundation
internal import Synchronization

/// Computes the MD5s of parts, several in parallel: see docs/decisions/0021-md5-of-several-parts.md.
///
/// A part waits a moment for others, of any upload, unless its result is needed now.
final class PartHashes: Sendable {
    private struct Contents {
        /// Fewer parts than there are lanes.
        var waiting: [PartBuffer] = []
        /// Parts that have waited long enough.
        var due: [PartBuffer] = []
        /// Number of running groups of parallel hashes.
        var running = 0
        /// Incremented each time waiting parts are taken.
        var round: UInt64 = 0
    }

    private let contents = Mutex(Contents())
    private let waitTimeout: Duration
    /// Maximum number of groups at the same time, each on a core; more would only hold memory.
    private let maximumRunning = max(2, ProcessInfo.processInfo.activeProcessorCount / 2)

    init(waitTimeout: Duration = .milliseconds(250)) {
        self.waitTimeout = waitTimeout
    }

    /// Starts computing the digest of a complete part; the part receives the result.
    func add(_ part: PartBuffer) {
        let (isFull, round) = contents.withLock { contents in
            contents.waiting.append(part)
            return (contents.waiting.count == ParallelMD5.lanes, contents.round)
        }
        flush { _ in isFull }
        guard !isFull else { return }
        Task {
            try? await Task.sleep(for: waitTimeout)
            flush { $0.round == round }
        }
    }

    /// Whether a part still waits for others.
    func isWaiting(_ part: PartBuffer) -> Bool {
        contents.withLock { contents in contents.waiting.contains { $0 === part } }
    }

    /// Ends the wait of a part.
    func hashNow(_ part: PartBuffer) {
        flush { contents in contents.waiting.contains { $0 === part } }
    }

    /// Ends the wait of all parts, because their memory is needed.
    func flush() {
        flush { _ in true }
    }

    private func flush(if condition: (borrowing Contents) -> Bool) {
        contents.withLock { contents in
            guard !contents.waiting.isEmpty, condition(contents) else { return }
            contents.due += contents.waiting
            contents.waiting = []
            contents.round += 1
        }
        startDue()
    }

    private func startDue() {
        let groups = contents.withLock { contents in
            var groups: [[PartBuffer]] = []
            while contents.running < maximumRunning, !contents.due.isEmpty {
                groups.append(Array(contents.due.prefix(ParallelMD5.lanes)))
                contents.due.removeFirst(min(ParallelMD5.lanes, contents.due.count))
                contents.running += 1
            }
            return groups
        }
        for group in groups {
            Task {
                await Self.hash(group)
                contents.withLock { $0.running -= 1 }
                startDue()
            }
        }
    }

    /// Bytes of each part before other groups get a turn.
    private static let bytesPerTurn: Int64 = 1 << 20

    private static func hash(_ parts: [PartBuffer]) async {
        var lanes = parts.compactMap { part in part.snapshot.map { Lane(part, $0) } }
        var md5 = ParallelMD5()
        var next = bytesPerTurn
        while lanes.contains(where: { !$0.isDone }) {
            await step(&lanes, &md5)
            if let offset = lanes.lazy.map(\.offset).max(), offset >= next {
                next = offset + bytesPerTurn
                await Task.yield()
                for index in lanes.indices where lanes[index].part.isStopped { lanes[index].end() }
            }
        }
    }

    private struct Lane {
        let part: PartBuffer
        /// `nil` when the part is finished, so that its memory is not held until the other lanes finish.
        private(set) var bytes: BufferedBytes?
        var offset: Int64 = 0
        /// Holds bytes read from a file.
        var spare: Slab?

        init(_ part: PartBuffer, _ bytes: BufferedBytes) {
            self.part = part
            self.bytes = bytes
        }

        var isDone: Bool { bytes == nil }

        mutating func end() {
            bytes = nil
            spare = nil
        }
    }

    /// Advances all lanes by the shortest contiguous piece of any lane.
    private static func step(_ lanes: inout [Lane], _ md5: inout ParallelMD5) async {
        var pieces = [UnsafeRawPointer?](repeating: nil, count: ParallelMD5.lanes)
        var common = Int.max
        for index in lanes.indices {
            guard let bytes = lanes[index].bytes else { continue }
            let (part, offset) = (lanes[index].part, lanes[index].offset)
            var piece = UnsafeRawBufferPointer(start: nil, count: 0)
            if offset < bytes.count {
                guard
                    let found = await bytes.piece(at: offset, least: ParallelMD5.blockSize, spare: &lanes[index].spare)
                else {
                    // Bytes that cannot be read cannot be sent either.
                    part.stopReaders()
                    lanes[index].end()
                    continue
                }
                piece = found
            }
            let blocks = piece.count / ParallelMD5.blockSize * ParallelMD5.blockSize
            if blocks > 0 {
                pieces[index] = piece.baseAddress
                common = min(common, blocks)
            } else {
                part.setMD5(md5.finish(index, rest: piece))
                lanes[index].end()
            }
        }
        guard common < Int.max else { return }
        md5.update(pieces, count: common)
        for index in lanes.indices where pieces[index] != nil { lanes[index].offset += Int64(common) }
    }
}
