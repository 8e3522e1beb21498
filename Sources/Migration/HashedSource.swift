internal import Bytes
internal import Digests
internal import UploadModel

/// Hashes the bytes of another source as they pass.
final class HashedSource: ByteSource {
    private let source: any ByteSource
    private let running: [RunningDigest]

    init(_ source: any ByteSource, by algorithms: Set<DigestAlgorithm>) {
        self.source = source
        running = algorithms.map { RunningDigest($0) }
    }

    /// Digests of all bytes; call it after the last one, nothing can be pulled afterwards.
    func digests() -> DigestValues {
        Dictionary(uniqueKeysWithValues: running.map { ($0.algorithm, $0.finish()) })
    }

    var remaining: Int64? { source.remaining }

    var interrupter: SourceInterrupter { source.interrupter }

    func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? {
        guard let piece = try await source.next(maximum: maximum) else { return nil }
        for digest in running { digest.update(piece) }
        return piece
    }
}
