internal import Digests
internal import Foundation
internal import Synchronization

/// Computes the MD5s of parts, those of several beside each other: see docs/decisions/0021-md5-of-several-parts.md.
///
/// A part waits a moment for others, of whatever upload, unless somebody waits for it.
final class PartHashes: Sendable {
    private struct Contents {
        /// Fewer than fit beside each other.
        var waiting: [PartBuffer] = []
        /// Waited long enough.
        var due: [PartBuffer] = []
        /// How many times some are hashed beside each other now.
        var running = 0
        /// How often those that waited were taken.
        var round: UInt64 = 0
    }

    private let contents = Mutex(Contents())
    private let patience: Duration
    /// At the same time, each on a core; more would only hold memory.
    private let mostRunning = max(2, ProcessInfo.processInfo.activeProcessorCount / 2)

    init(patience: Duration = .milliseconds(250)) {
        self.patience = patience
    }

    /// Has the digest of a part computed, which is whole; the part is told.
    func add(_ part: PartBuffer) {
        let (isFull, round) = contents.withLock { contents in
            contents.waiting.append(part)
            return (contents.waiting.count == ParallelMD5.lanes, contents.round)
        }
        flush { _ in isFull }
        guard !isFull else { return }
        Task {
            try? await Task.sleep(for: patience)
            flush { $0.round == round }
        }
    }

    /// Lets a part wait no longer.
    func hurry(_ part: PartBuffer) {
        flush { contents in contents.waiting.contains { $0 === part } }
    }

    /// Lets no part wait any longer: the memory is needed.
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
            while contents.running < mostRunning, !contents.due.isEmpty {
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

    /// Bytes of each part after which others have their turn.
    private static let stretch: Int64 = 1 << 20

    private static func hash(_ parts: [PartBuffer]) async {
        var lanes = parts.compactMap { part in part.snapshot.map { Lane(part, $0) } }
        var md5 = ParallelMD5()
        var next = stretch
        while lanes.contains(where: { !$0.isDone }) {
            step(&lanes, &md5)
            if let offset = lanes.lazy.map(\.offset).max(), offset >= next {
                next = offset + stretch
                await Task.yield()
                for index in lanes.indices where lanes[index].part.isStopped { lanes[index].end() }
            }
        }
    }

    private struct Lane {
        let part: PartBuffer
        /// `nil` when it is done: their memory is not kept for the other lanes.
        private(set) var bytes: BufferedBytes?
        var offset: Int64 = 0
        /// Has bytes of a file.
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

    /// Takes all lanes to the end of the shortest piece that one of them has.
    private static func step(_ lanes: inout [Lane], _ md5: inout ParallelMD5) {
        var pieces = [UnsafeRawPointer?](repeating: nil, count: ParallelMD5.lanes)
        var common = Int.max
        for index in lanes.indices {
            guard let bytes = lanes[index].bytes else { continue }
            let (part, offset) = (lanes[index].part, lanes[index].offset)
            var piece = UnsafeRawBufferPointer(start: nil, count: 0)
            if offset < bytes.count {
                guard
                    let found = bytes.piece(at: offset, least: ParallelMD5.blockSize, spare: &lanes[index].spare)
                else {
                    // What can not be read can not be sent either.
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
                part.tell(md5: md5.finish(index, rest: piece))
                lanes[index].end()
            }
        }
        guard common < Int.max else { return }
        md5.update(pieces, count: common)
        for index in lanes.indices where pieces[index] != nil { lanes[index].offset += Int64(common) }
    }
}
