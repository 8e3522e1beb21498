internal import Bytes

#if canImport(Glibc)
internal import Glibc
#endif

/// A source whose first bytes were already pulled.
final class PrefixedSource: ByteSource {
    private var prefix: ArraySlice<UInt8>
    private let source: any ByteSource
    private let failure: SourceFailure?

    /// - Parameters:
    ///   - prefix: The bytes already pulled.
    ///   - source: Provides the rest.
    ///   - failure: The error of the source, if it failed.
    init(_ prefix: [UInt8], before source: any ByteSource, _ failure: SourceFailure?) {
        self.prefix = prefix[...]
        self.source = source
        self.failure = failure
    }

    var remaining: Int64? { source.remaining.map { $0 + Int64(prefix.count) } }
    var interrupter: SourceInterrupter { source.interrupter }
    var supportsTransfer: Bool { source.supportsTransfer && failure == nil }

    func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? {
        if !prefix.isEmpty {
            defer { prefix = prefix.dropFirst(maximum) }
            return Array(prefix.prefix(maximum))
        }
        if let failure { throw failure }
        return try await source.next(maximum: maximum)
    }

    func transfer(to descriptor: Int32, at offset: Int64, limit: Int64) async -> TransferOutcome {
        var moved: Int64 = 0
        while !prefix.isEmpty {
            if moved == limit { return TransferOutcome(moved: moved, end: .limitReached) }
            let count = Int(min(Int64(prefix.count), limit - moved))
            // A few hundred bytes at the start of a file: not worth a change of thread.
            let written = prefix.withUnsafeBytes { pwrite(descriptor, $0.baseAddress, count, off_t(offset + moved)) }
            if written < 0, errno == EINTR { continue }
            guard written > 0 else {
                return TransferOutcome(moved: moved, end: .fileFailed(errno: written < 0 ? errno : EIO))
            }
            prefix = prefix.dropFirst(written)
            moved += Int64(written)
        }
        let rest = await source.transfer(to: descriptor, at: offset + moved, limit: limit - moved)
        return TransferOutcome(moved: moved + rest.moved, end: rest.end)
    }
}
