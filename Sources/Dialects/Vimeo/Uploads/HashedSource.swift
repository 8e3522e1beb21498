internal import Bytes
internal import Digests

/// A source that counts and hashes what is pulled.
final class HashedSource: ByteSource {
    private let source: any ByteSource
    private let hash = RunningDigest(.sha256)
    /// Bytes that were pulled.
    private(set) var count: Int64 = 0

    init(_ source: any ByteSource) { self.source = source }

    var remaining: Int64? { source.remaining }
    var interrupter: SourceInterrupter { source.interrupter }
    /// SHA-256 of the bytes that were pulled; none may be pulled afterwards.
    var digest: [UInt8] { hash.finish() }

    func arrives(_ count: Int) async -> Bool { await source.arrives(count) }

    func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? {
        guard let piece = try await source.next(maximum: maximum) else { return nil }
        hash.update(piece)
        count += Int64(piece.count)
        return piece
    }
}
