internal import Bytes
internal import Signing

/// The data in content in the coding `aws-chunked`.
///
/// Data come out before the signature of their chunk has come: only when the source has ended well all of them are vouched
/// for.
final class AWSChunkedSource: ByteSource {
    private let source: any ByteSource
    private var decoder: AWSChunkedDecoder
    /// Bytes that came and were not handed out begin at `start`.
    private var buffer: [UInt8] = []
    private var start = 0
    private var left: Int64?
    private var hasEnded = false
    /// Why the coding is wrong, once that is certain.
    private(set) var failure: AWSChunkedFailure?
    /// Those of the end.
    private(set) var trailers: [SigningField] = []

    /// - Parameters:
    ///   - source: The content as it came.
    ///   - decoder: For this content.
    ///   - length: Bytes of data, if that is known.
    init(_ source: any ByteSource, _ decoder: consuming AWSChunkedDecoder, length: Int64?) {
        self.source = source
        self.decoder = decoder
        left = length
    }

    var remaining: Int64? { left }

    var interrupter: SourceInterrupter { source.interrupter }

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

    /// Data in what has come; `nil` if there are none, and all of it was taken.
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

    private static let malformed = SourceFailure.malformed("it is not as aws-chunked must be.")
}
