internal import Bytes
internal import Signing

/// Decodes content in the coding `aws-chunked`.
///
/// Data is passed on before the signature of its chunk has arrived, so it is authentic only after the source has ended
/// without error.
final class AWSChunkedSource: ByteSource {
    private let source: any ByteSource
    private var decoder: AWSChunkedDecoder
    /// Received bytes not yet passed on begin at `start`.
    private var buffer: [UInt8] = []
    private var start = 0
    private var left: Int64?
    private var hasEnded = false
    /// What is wrong with the coding, once that is certain.
    private(set) var failure: AWSChunkedFailure?
    /// Trailer fields after the last chunk.
    private(set) var trailers: [SigningField] = []

    /// - Parameters:
    ///   - source: The encoded content.
    ///   - decoder: A decoder for this content.
    ///   - length: Number of data bytes, if known.
    init(_ source: any ByteSource, _ decoder: consuming AWSChunkedDecoder, length: Int64?) {
        self.source = source
        self.decoder = decoder
        left = length
    }

    var remaining: Int64? { left }

    var interrupter: SourceInterrupter { source.interrupter }

    /// The coding is longer than its data, so all of it must arrive.
    func arrives(_ count: Int) async -> Bool {
        guard let encoded = source.remaining, encoded <= 2 * Int64(count) + Self.mostFraming else { return false }
        return await source.arrives(Int(encoded))
    }

    /// Bytes of chunk heads, signatures and a trailer around a small content.
    private static let mostFraming: Int64 = 4096

    func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? {
        if failure != nil { throw Self.malformed }
        while !hasEnded {
            if let piece = try take(maximum) { return piece }
            guard !hasEnded else { break }
            guard let bytes = try await source.next(maximum: maximum) else {
                throw fail(.wrongLength)
            }
            buffer = bytes
            start = 0
        }
        return nil
    }

    /// Decodes data from the bytes received so far; `nil` if all of them are consumed and there is no data.
    private func take(_ maximum: Int) throws(SourceFailure) -> [UInt8]? {
        let step: AWSChunkedDecoder.Step
        do throws(AWSChunkedFailure) {
            step = try decoder.next(buffer.span.extracting(start...))
        } catch {
            throw fail(error)
        }
        switch step {
        case .needMore(let consumed):
            start += consumed
            return nil
        case .data(let skip, let count):
            start += skip
            let piece = Array(buffer[start..<start + min(count, maximum)])
            decoder.took(piece)
            start += piece.count
            left = left.map { $0 - Int64(piece.count) }
            return piece
        case .end(let consumed, let trailers):
            start += consumed
            guard start == buffer.count else { throw fail(.malformed("bytes come after its end")) }
            self.trailers = trailers
            hasEnded = true
            return nil
        }
    }

    private func fail(_ failure: AWSChunkedFailure) -> SourceFailure {
        self.failure = failure
        buffer = []
        return Self.malformed
    }

    private static let malformed = SourceFailure.malformed("it is not valid aws-chunked.")
}
