package import Bytes
package import SystemIO
internal import UploadModel

/// A source whose first bytes were already pulled.
package final class PrefixedSource: ByteSource {
    private var prefix: ArraySlice<UInt8>
    private let source: any ByteSource
    private let failure: SourceFailure?

    /// - Parameters:
    ///   - prefix: The bytes already pulled.
    ///   - source: Provides the rest.
    ///   - failure: The error of the source, if it failed.
    package init(_ prefix: [UInt8], before source: any ByteSource, _ failure: SourceFailure? = nil) {
        self.prefix = prefix[...]
        self.source = source
        self.failure = failure
    }

    package var remaining: Int64? { source.remaining.map { $0 + Int64(prefix.count) } }
    package var interrupter: SourceInterrupter { source.interrupter }
    package var supportsTransfer: Bool { source.supportsTransfer && failure == nil }

    package func arrives(_ count: Int) async -> Bool {
        if count <= prefix.count { return true }
        return await source.arrives(count - prefix.count)
    }

    package func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? {
        if !prefix.isEmpty {
            defer { prefix = prefix.dropFirst(maximum) }
            return Array(prefix.prefix(maximum))
        }
        if let failure { throw failure }
        return try await source.next(maximum: maximum)
    }

    package func transfer(to file: OpenFile, at offset: Int64, limit: Int64, on pool: BlockingPool) async
        -> TransferOutcome
    {
        var moved: Int64 = 0
        if !prefix.isEmpty {
            let bytes = Array(prefix.prefix(Int(clamping: limit)))
            let (count, failure) = await pool.run { io in io.write(bytes, to: file, at: offset) }
            prefix = prefix.dropFirst(count)
            moved = Int64(count)
            if let failure { return TransferOutcome(moved: moved, end: .fileFailed(errno: failure.errno)) }
            if !prefix.isEmpty { return TransferOutcome(moved: moved, end: .limitReached) }
        }
        let rest = await source.transfer(to: file, at: offset + moved, limit: limit - moved, on: pool)
        return TransferOutcome(moved: moved + rest.moved, end: rest.end)
    }
}
