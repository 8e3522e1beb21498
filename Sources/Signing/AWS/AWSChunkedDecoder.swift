internal import Bytes
internal import Digests

/// Why content with the coding `aws-chunked` is refused; the rest of it cannot be interpreted.
package enum AWSChunkedFailure: Error, Sendable, Equatable {
    /// The content does not follow the syntax of the coding.
    case malformed(String)
    /// A chunk has a wrong signature.
    case wrongChunkSignature
    /// The trailers have a wrong signature.
    case wrongTrailerSignature
    /// The number of bytes differs from `x-amz-decoded-content-length`.
    case wrongLength
    /// A chunk before the last one has too few bytes of data; the first chunk has number 1.
    case smallChunk(number: Int, size: Int64, minimum: Int64)
}

/// Decodes the content coding `aws-chunked` and verifies its signatures; see `AWSChunkedEncoder` for the format.
///
/// It is used like `ChunkedDecoder`, but it must see the data to compute the digest of each chunk. Data are returned
/// before their chunk has ended, so the caller must discard them if a later step fails: only the first `verifiedCount`
/// bytes are verified.
package struct AWSChunkedDecoder: ~Copyable, Sendable {
    package enum Step: Sendable, Equatable {
        /// The buffer holds no data. All its `consumed` bytes were framing.
        case needMore(consumed: Int)
        /// After `skip` bytes of framing, the buffer holds `count` bytes of data (at least 1).
        case data(skip: Int, count: Int)
        /// The content ended `consumed` bytes into the buffer.
        case end(consumed: Int, trailers: [SigningField])
    }

    private enum State: Sendable {
        case line, lineLineFeed, data, dataReturn, dataLineFeed
        case trailer, trailerLineFeed, afterLineFeed, blankLineFeed, lastReturn, lastLineFeed, finished
    }

    /// Bytes of data before the next framing.
    package private(set) var remainingInChunk: Int64 = 0
    /// Number of leading bytes with correct signatures; without signatures, the bytes of all complete chunks.
    package private(set) var verifiedCount: Int64 = 0

    private var signer: SigV4ChunkSigner?
    private let hasTrailers: Bool
    private let length: Int64?
    private let minimumChunk: Int64
    private var chunkCount = 0
    /// Bytes of data in the chunk that began last.
    private var chunkSize: Int64 = 0
    private var state = State.line
    private var line: [UInt8] = []
    private var chunkSignature = ""
    private var digest = RunningDigest(.sha256)
    private var dataCount: Int64 = 0
    private var trailerBytes = 0
    private var trailers: [SigningField] = []

    /// Bytes of a size line: 15 digits and the signature.
    private static let maximumLine = 128
    private static let maximumTrailerBytes = 8192
    private static let maximumTrailers = 16

    /// A decoder for the content of one request; `nil` if it is not chunked.
    ///
    /// - Parameters:
    ///   - payload: What the request declares about its content.
    ///   - signature: The verified signature of the request.
    ///   - length: `x-amz-decoded-content-length`, if known.
    ///   - minimumChunk: Minimum bytes of data in every chunk but the last.
    package init?(payload: SigV4Payload, signature: SigV4Signature, length: Int64?, minimumChunk: Int64 = 1) {
        switch payload {
        case .signedChunks, .signedChunksAndTrailers: signer = signature.chunkSigner
        case .unsignedChunksAndTrailers: signer = nil
        case .sha256, .unsigned: return nil
        }
        hasTrailers = payload != .signedChunks
        self.length = length
        self.minimumChunk = minimumChunk
    }

    /// Decodes the beginning of `buffer`.
    ///
    /// - Parameter buffer: All bytes that were received and neither consumed nor taken; can be empty.
    /// - Returns: What the caller must do with these bytes.
    /// - Throws: The problem of the content.
    package mutating func next(_ buffer: Span<UInt8>) throws(AWSChunkedFailure) -> Step {
        var index = 0
        while state != .finished {
            if state == .data {
                let available = Int(min(remainingInChunk, Int64(buffer.count - index)))
                return available > 0 ? .data(skip: index, count: available) : .needMore(consumed: index)
            }
            guard index < buffer.count else { return .needMore(consumed: index) }
            try take(buffer[index])
            index += 1
        }
        return .end(consumed: index, trailers: trailers)
    }

    /// Reports that the caller has taken these bytes of data.
    ///
    /// - Precondition: They are at most `remainingInChunk`.
    package mutating func took(_ bytes: UnsafeRawBufferPointer) {
        precondition(Int64(bytes.count) <= remainingInChunk, "the caller took more data than the chunk has")
        guard !bytes.isEmpty else { return }
        if signer != nil { digest.update(bytes) }
        remainingInChunk -= Int64(bytes.count)
        dataCount += Int64(bytes.count)
        if remainingInChunk == 0 { state = .dataReturn }
    }

    /// Reports that the caller has taken these bytes of data.
    ///
    /// - Precondition: They are at most `remainingInChunk`.
    package mutating func took(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { took($0) }
    }

    private mutating func take(_ byte: UInt8) throws(AWSChunkedFailure) {
        switch state {
        case .line:
            guard byte != 13 else {
                state = .lineLineFeed
                return
            }
            guard line.count < Self.maximumLine else { throw .malformed("chunk line too long") }
            line.append(byte)
        case .lineLineFeed:
            try expect(10, byte)
            try endLine()
        case .dataReturn:
            try expect(13, byte)
            state = .dataLineFeed
        case .dataLineFeed:
            try expect(10, byte)
            try endChunk()
            state = .line
        case .trailer:
            try takeTrailer(byte)
        case .afterLineFeed:
            if byte == 13 {
                state = .blankLineFeed
            } else {
                try takeTrailer(byte)
            }
        case .blankLineFeed:
            try expect(10, byte)
            state = .trailer
        case .trailerLineFeed:
            try expect(10, byte)
            try endTrailer()
        case .lastReturn:
            try expect(13, byte)
            state = .lastLineFeed
        case .lastLineFeed:
            try expect(10, byte)
            state = .finished
        case .data, .finished: break
        }
    }

    private func expect(_ wanted: UInt8, _ byte: UInt8) throws(AWSChunkedFailure) {
        guard byte == wanted else { throw .malformed("CRLF missing") }
    }

    private mutating func endLine() throws(AWSChunkedFailure) {
        let parts = line.split(separator: UInt8(ascii: ";"), omittingEmptySubsequences: false)
        line.removeAll(keepingCapacity: true)
        var size: Int64 = 0
        guard let digits = parts.first, (1...15).contains(digits.count) else { throw .malformed("chunk size") }
        for digit in digits {
            guard let value = Hexadecimal.value(of: digit) else { throw .malformed("chunk size") }
            size = size << 4 | Int64(value)
        }
        if signer == nil {
            guard parts.count == 1 else { throw .malformed("chunk signature in unsigned content") }
        } else {
            let start = Array("\(AWSChunkedEncoder.signatureName)=".utf8)
            guard parts.count == 2, parts[1].starts(with: start),
                let signature = Self.signature(parts[1].dropFirst(start.count))
            else { throw .malformed("chunk signature") }
            chunkSignature = signature
        }
        if let length {
            guard size <= length - dataCount, size > 0 || dataCount == length else { throw .wrongLength }
        } else {
            guard size <= Int64.max - dataCount else { throw .wrongLength }
        }
        if size > 0 {
            guard chunkCount == 0 || chunkSize >= minimumChunk else {
                throw .smallChunk(number: chunkCount, size: chunkSize, minimum: minimumChunk)
            }
            chunkCount += 1
            chunkSize = size
            remainingInChunk = size
            state = .data
        } else {
            try endChunk()
            state = .trailer
        }
    }

    private mutating func endChunk() throws(AWSChunkedFailure) {
        if let signature = signer?.sign(sha256: digest.finish()) {
            guard constantTimeEquals(signature.utf8, chunkSignature.utf8) else { throw .wrongChunkSignature }
            digest = RunningDigest(.sha256)
        }
        verifiedCount = dataCount
    }

    /// Takes one byte of a trailer.
    ///
    /// Lines end with CRLF, as the SDKs write them, or with LF and an optional CRLF, as in the documentation and in
    /// MinIO's clients.
    private mutating func takeTrailer(_ byte: UInt8) throws(AWSChunkedFailure) {
        switch byte {
        case 13:
            state = .trailerLineFeed
        case 10:
            guard !line.isEmpty else { throw .malformed("CRLF missing") }
            try endTrailer()
            if state == .trailer { state = .afterLineFeed }
        default:
            guard byte >= 0x20 && byte != 0x7F || byte == 0x09 else {
                throw .malformed("control character in a trailer")
            }
            trailerBytes += 1
            guard trailerBytes <= Self.maximumTrailerBytes else { throw .malformed("trailers too large") }
            line.append(byte)
            state = .trailer
        }
    }

    private mutating func endTrailer() throws(AWSChunkedFailure) {
        defer { line.removeAll(keepingCapacity: true) }
        state = .trailer
        guard !line.isEmpty else {
            guard signer == nil || !hasTrailers else { throw .malformed("trailer signature missing") }
            state = .finished
            return
        }
        guard hasTrailers else { throw .malformed("trailers in content that announced none") }
        guard trailers.count < Self.maximumTrailers else { throw .malformed("too many trailers") }
        guard let colon = line.firstIndex(of: UInt8(ascii: ":")), colon > 0,
            let name = String(clientText: line[..<colon]),
            let value = String(clientText: line[(colon + 1)...])
        else { throw .malformed("trailer") }
        var trimmed: [UInt8] = []
        SigV4CanonicalRequest.appendValue(value, to: &trimmed)
        let trailer = SigningField(SigningText.lowercased(name), String(decoding: trimmed, as: UTF8.self))
        guard trailer.name == AWSChunkedEncoder.trailerSignatureName else {
            guard !trailers.contains(where: { $0.name == trailer.name }) else { throw .malformed("repeated trailer") }
            trailers.append(trailer)
            return
        }
        guard let signature = signer?.sign(trailers: trailers) else {
            throw .malformed("trailer signature in unsigned content")
        }
        guard SigV4Hash(trailer.value) != nil, constantTimeEquals(signature.utf8, trailer.value.utf8) else {
            throw .wrongTrailerSignature
        }
        // Only the empty line may follow.
        state = .lastReturn
    }

    private static func signature(_ digits: ArraySlice<UInt8>) -> String? {
        let text = String(decoding: digits, as: UTF8.self)
        return SigV4Hash(text) == nil ? nil : text
    }
}
