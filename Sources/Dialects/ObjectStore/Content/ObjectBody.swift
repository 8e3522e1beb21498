package import Bytes
internal import Digests
internal import HTTPWire
package import Signing
package import UploadModel

/// The bytes of an object, part or document from a request: without the `aws-chunked` coding, and verified against
/// everything the request declares about them.
///
///     let body = try ObjectBody(head, request.body, caller, checksum: upload.algorithm)
///     …                                 // store `body`, and have `body.digests` look at what is stored
///     let outcome = try body.outcome()  // only now the bytes are the right ones
///
/// If a mismatch shows only at the end, the caller must undo what was stored. If the source fails because of the
/// received bytes, `failure` is the error response.
package final class ObjectBody: ByteSource {
    /// Result of storing the bytes.
    package struct Outcome: Sendable, Equatable {
        package let values: ObjectDigests.Values
        /// The requested checksum, or the one that the request declares.
        package let checksum: ObjectChecksum?
    }

    /// The storing code calls its `update` with all bytes.
    package let digests: ObjectDigests
    /// Number of bytes announced by the request; `nil` if it announces none.
    package let length: Int64?
    /// Whether the request or its upload asked for the checksum.
    package let hasRequestedChecksum: Bool

    private let declared: DeclaredContent
    /// Algorithm of the checksum expected in the trailer.
    private let announced: ObjectChecksum.Algorithm?
    private let sha256: [UInt8]?
    private let source: any ByteSource
    private let chunks: AWSChunkedSource?
    private var delivered: Int64 = 0
    private var hasEnded = false

    /// "Signature calculations for the authorization header: Transferring payload in multiple chunks", Amazon S3 API
    /// Reference.
    package static let minimumChunk: Int64 = 8192

    /// - Parameters:
    ///   - content: What the request declares about it.
    ///   - body: The received body, not yet pulled.
    ///   - payload: The signature's statement about the content.
    ///   - signature: The signature of the request; needed for content in chunks.
    ///   - algorithm: The checksum to compute; `nil` uses the request's, if it has one.
    ///   - usual: The checksum to compute if neither says which.
    ///   - minimumChunk: Bytes of data in every chunk but the last.
    /// - Throws: `MissingContentLength`; `InvalidRequest` for an invalid declaration, or if the request has a checksum
    ///   other than `algorithm`.
    package init(
        _ content: DeclaredContent,
        _ body: any ByteSource,
        payload: SigV4Payload,
        signature: SigV4Signature?,
        checksum algorithm: ObjectChecksum.Algorithm? = nil,
        otherwise usual: ObjectChecksum.Algorithm? = nil,
        minimumChunk: Int64 = minimumChunk
    ) throws(ObjectError) {
        let length = try content.length(payload)
        announced = try content.trailer(payload)
        try content.checkSDKAlgorithm(announced)
        let own = content.checksum?.algorithm ?? announced
        if let own, let algorithm, own != algorithm {
            throw ObjectError(
                .invalidRequest,
                "Checksum Type mismatch occurred, expected checksum Type: \(algorithm.rawValue), actual checksum Type: "
                    + own.rawValue
            )
        }
        declared = content
        self.length = length
        hasRequestedChecksum = algorithm != nil || own != nil
        if case .sha256(let hash) = payload { sha256 = hash } else { sha256 = nil }
        digests = ObjectDigests(algorithm ?? own ?? usual, needsSHA256: sha256 != nil, needsSHA1: content.sha1 != nil)
        if let signature, let length,
            let decoder = AWSChunkedDecoder(
                payload: payload,
                signature: signature,
                length: length,
                minimumChunk: minimumChunk
            )
        {
            let chunks = AWSChunkedSource(body, decoder, length: length)
            self.chunks = chunks
            source = chunks
        } else {
            guard payload.isWhole else { throw ObjectError(.invalidRequest, "Content in chunks needs a signature.") }
            chunks = nil
            source = body
        }
    }

    package convenience init(
        _ content: DeclaredContent,
        _ body: any ByteSource,
        _ caller: ObjectCaller,
        checksum algorithm: ObjectChecksum.Algorithm? = nil,
        otherwise usual: ObjectChecksum.Algorithm? = nil
    ) throws(ObjectError) {
        try self.init(
            content,
            body,
            payload: caller.payload,
            signature: caller.signature,
            checksum: algorithm,
            otherwise: usual
        )
    }

    package var remaining: Int64? { length.map { $0 - delivered } }

    package var interrupter: SourceInterrupter { source.interrupter }

    package func arrives(_ count: Int) async -> Bool { await source.arrives(count) }

    package func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? {
        guard let piece = try await source.next(maximum: maximum) else {
            guard delivered == length ?? delivered else { throw .disconnected }
            hasEnded = true
            return nil
        }
        delivered += Int64(piece.count)
        guard delivered <= length ?? delivered else { throw .malformed("it is longer than the request declares.") }
        return piece
    }

    /// Why the bytes do not match the request, as far as that showed while they arrived.
    package var failure: ObjectError? { chunks?.failure.map { ObjectError(chunks: $0) } }

    /// Compares what was stored with the request's declarations.
    ///
    /// - Throws: `BadDigest`, `XAmzContentSHA256Mismatch`, `MalformedTrailerError`, `failure`; `IncompleteBody` before the source
    ///   has ended.
    package func outcome() throws(ObjectError) -> Outcome {
        if let failure { throw failure }
        guard hasEnded else { throw ObjectError(.incompleteBody) }
        let values = digests.finish()
        // Clients cannot cause this: the storing code did not pass all bytes to the digests.
        guard values.count == delivered else { throw ObjectError(.internalError) }
        if let sha256, !constantTimeEquals(sha256, values.sha256 ?? []) {
            throw ObjectError(.xAmzContentSHA256Mismatch)
        }
        if let md5 = declared.md5, md5 != values.md5 {
            throw ObjectError(.badDigest, "The Content-MD5 you specified did not match what we received.")
        }
        if let crc64 = declared.crc64, crc64 != values.crc64 {
            throw ObjectError(.badDigest, "The CRC-64 you specified did not match what we received.")
        }
        if let sha1 = declared.sha1, sha1 != values.sha1 {
            throw ObjectError(.badDigest, "The SHA-1 you specified did not match what we received.")
        }
        let trailer = try trailer()
        if let checksum = declared.checksum ?? trailer, checksum.value != values.checksum {
            throw ObjectError(
                .badDigest,
                "The \(checksum.algorithm.s3Name) you specified did not match the calculated checksum."
            )
        }
        return Outcome(
            values: values,
            checksum: digests.algorithm.map { ObjectChecksum($0, value: values.checksum) }
        )
    }

    /// Reads and verifies a whole document.
    ///
    /// - Parameter limit: Maximum size in bytes.
    /// - Returns: Its bytes.
    /// - Throws: `MaxMessageLengthExceeded`; errors of `outcome`; connection errors.
    package func document(limit: Int) async throws(ObjectError) -> [UInt8] {
        var tooLong = ObjectError(
            .maxMessageLengthExceeded,
            details: [ObjectError.Detail("MaxMessageLengthBytes", String(limit))]
        )
        guard length ?? 0 <= Int64(limit) else { throw tooLong }
        let bytes: [UInt8]
        do throws(SourceFailure) {
            bytes = try await collect(limit: limit)
        } catch {
            if case .tooLarge = error, length == nil {
                tooLong.closesConnection = true
                throw tooLong
            }
            throw failure ?? ObjectError(content: error)
        }
        digests.update(bytes)
        _ = try outcome()
        return bytes
    }

    /// The checksum in the trailer.
    private func trailer() throws(ObjectError) -> ObjectChecksum.Declared? {
        let trailers = chunks?.trailers ?? []
        guard let algorithm = announced else {
            guard trailers.isEmpty else { throw ObjectError(.malformedTrailer) }
            return nil
        }
        guard trailers.count == 1, trailers[0].name == algorithm.s3Field.spelling else {
            throw ObjectError(.malformedTrailer)
        }
        let checksum = try ObjectChecksum.Declared(algorithm, trailers[0].value)
        guard checksum.parts == nil else { throw ObjectError(.malformedTrailer) }
        return checksum
    }
}
