internal import Bytes

/// The bytes of one source followed by those of another.
final class JoinedSource: ByteSource {
    private let first: any ByteSource
    private let second: any ByteSource
    private var isFirstOver = false

    /// - Parameters:
    ///   - first: The caller guarantees that it ends.
    ///   - second: This source can be interrupted.
    init(_ first: any ByteSource, _ second: any ByteSource) {
        self.first = first
        self.second = second
    }

    var remaining: Int64? {
        guard let rest = second.remaining else { return nil }
        return isFirstOver ? rest : first.remaining.map { $0 + rest }
    }

    var interrupter: SourceInterrupter { second.interrupter }

    func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? {
        if !isFirstOver {
            if let piece = try await first.next(maximum: maximum) { return piece }
            isFirstOver = true
        }
        return try await second.next(maximum: maximum)
    }
}
