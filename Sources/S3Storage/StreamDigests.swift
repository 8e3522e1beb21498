internal import Digests
internal import Synchronization
internal import SystemIO

/// Digests of a content that arrives in pieces, computed on the pool: an event loop that computed them would serve no other
/// connection meanwhile, and five digests of a piece take longer than receiving it.
///
/// Invariant for `@unchecked`: one task uses it, and waits in `update` while threads of the pool use the digests.
final class StreamDigests: @unchecked Sendable {
    private let digests: [RunningDigest]
    /// What one thread computes of a piece; all groups at the same time.
    private let groups: [[RunningDigest]]
    private let pool: BlockingPool

    /// Bytes of a piece that is worth a change of threads.
    static let smallestMove = 8 << 10

    init(_ algorithms: some Collection<DigestAlgorithm>, on pool: BlockingPool) {
        digests = algorithms.map { RunningDigest($0) }
        // Processors have instructions for the others, which together take less time than one of these two.
        let slow = digests.filter { $0.algorithm == .md5 || $0.algorithm == .sha512 }
        let fast = digests.filter { $0.algorithm != .md5 && $0.algorithm != .sha512 }
        groups = slow.map { [$0] } + (fast.isEmpty ? [] : [fast])
        self.pool = pool
    }

    /// Adds the next bytes; returns when they are part of each digest, so one piece at most is in memory.
    func update(_ piece: [UInt8]) async {
        guard piece.count >= Self.smallestMove else {
            for digest in digests { digest.update(piece) }
            return
        }
        guard !groups.isEmpty else { return }
        let running = RunningGroups(groups.count)
        await withUnsafeContinuation { continuation in
            for group in groups {
                pool.submit { _ in
                    for digest in group { digest.update(piece) }
                    if running.end() { continuation.resume() }
                }
            }
        }
    }

    /// The digest of all bytes; `nil` for an algorithm that was not asked for.
    func value(_ algorithm: DigestAlgorithm) -> [UInt8]? {
        digests.first { $0.algorithm == algorithm }?.finish()
    }
}

/// Counts the groups that are still being computed.
private final class RunningGroups: Sendable {
    private let count: Mutex<Int>

    init(_ count: Int) { self.count = Mutex(count) }

    /// - Returns: Whether this was the last one.
    func end() -> Bool {
        count.withLock { count in
            count -= 1
            return count == 0
        }
    }
}
