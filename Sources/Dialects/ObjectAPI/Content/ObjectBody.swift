package import Bytes
internal import Digests
package import HTTPWire
package import Signing
package import UploadCore

/// The bytes of an object, a part or a document out of a request: without the coding `aws-chunked`, and compared with all that
/// the request says of them.
///
///     let body = try ObjectBody(head, request.body, caller, checksum: upload.algorithm)
///     …                                 // store `body`, and have `body.digests` look at what is stored
///     let outcome = try body.outcome()  // only now the bytes are the right ones
///
/// A mismatch that shows at the end only must undo what was stored. Where the source fails because of what came,
/// `failure` says it in S3's words.
package final class ObjectBody: ByteSource {
    /// What the request says of its bytes.
    private struct Declared {
        /// `nil` for content whose end alone tells, as clients of OSS send it.
        var length: Int64?
        var md5: [UInt8]?
        var sha256: [UInt8]?
        var checksum: ObjectChecksum.Declared?
        /// Of the trailer that will tell it.
        var trailer: ObjectChecksum.Algorithm?
    }

    /// What the content of a request is.
    package enum Kind: Sendable {
        /// Bytes to be stored; how many there are must be said.
        case object
        /// A document, which a request that says nothing of content does not have.
        case document
        /// The document `CompleteMultipartUpload`, beside which `x-amz-checksum-…` is of the object, not of the document.
        case completion
    }

    /// What was stored.
    package struct Outcome: Sendable, Equatable {
        package let values: ObjectDigests.Values
        /// The checksum that was asked for, or that the request has.
        package let checksum: ObjectChecksum?
    }

    /// Whoever stores the bytes calls its `update` with all of them.
    package let digests: ObjectDigests
    /// Bytes, as the request announces them; `nil` if it does not.
    package var length: Int64? { declared.length }

    private let declared: Declared
    private let source: any ByteSource
    private let chunks: AWSChunkedSource?
    private var delivered: Int64 = 0
    private var hasEnded = false

    /// - Parameters:
    ///   - head: An effective one, see `S3Request.effectiveHead`.
    ///   - body: As it came; not pulled before.
    ///   - payload: What the signature says of the content.
    ///   - signature: That of the request; needed for content in chunks.
    ///   - kind: What it is.
    ///   - algorithm: Of the checksum that is to be computed; `nil` for that of the request, if it has one.
    ///   - dialect: Of the request; S3 has no content without a length.
    /// - Throws: `MissingContentLength`; `InvalidDigest`, `InvalidRequest` for what the request says of its content;
    ///   `InvalidRequest` if it has another checksum than `algorithm`.
    package init(
        _ head: RequestHead,
        _ body: any ByteSource,
        payload: SigV4Payload,
        signature: SigV4Signature?,
        kind: Kind = .object,
        checksum algorithm: ObjectChecksum.Algorithm? = nil,
        for dialect: ObjectDialect = .s3
    ) throws(S3Error) {
        let declared = try Self.declared(head.fields, payload, kind, dialect)
        let own = declared.checksum?.algorithm ?? declared.trailer
        if let own, let algorithm, own != algorithm {
            throw S3Error(
                .invalidRequest,
                "Checksum Type mismatch occurred, expected checksum Type: \(algorithm.rawValue), actual checksum Type: "
                    + own.rawValue
            )
        }
        self.declared = declared
        digests = ObjectDigests(algorithm ?? own, needsSHA256: declared.sha256 != nil)
        if let signature, let length = declared.length,
            let decoder = AWSChunkedDecoder(payload: payload, signature: signature, length: length)
        {
            let chunks = AWSChunkedSource(body, decoder, length: length)
            self.chunks = chunks
            source = chunks
        } else {
            guard payload.isWhole else { throw S3Error(.invalidRequest, "Content in chunks needs a signature.") }
            chunks = nil
            source = body
        }
    }

    package convenience init(
        _ head: RequestHead,
        _ body: any ByteSource,
        _ caller: S3Caller,
        kind: Kind = .object,
        checksum algorithm: ObjectChecksum.Algorithm? = nil,
        for dialect: ObjectDialect = .s3
    ) throws(S3Error) {
        try self.init(
            head,
            body,
            payload: caller.payload,
            signature: caller.signature,
            kind: kind,
            checksum: algorithm,
            for: dialect
        )
    }

    package var remaining: Int64? { declared.length.map { $0 - delivered } }

    package var interrupter: SourceInterrupter { source.interrupter }

    package func next(maximum: Int) async throws(SourceFailure) -> [UInt8]? {
        guard let piece = try await source.next(maximum: maximum) else {
            guard delivered == declared.length ?? delivered else { throw .disconnected }
            hasEnded = true
            return nil
        }
        delivered += Int64(piece.count)
        guard delivered <= declared.length ?? delivered else { throw .malformed("it is longer than the request says.") }
        return piece
    }

    /// Why the bytes can not be what the request says, as far as that showed while they came.
    package var failure: S3Error? { chunks?.failure.map { S3Error(chunks: $0) } }

    /// Compares what was stored with what the request says of it.
    ///
    /// - Throws: `BadDigest`, `XAmzContentSHA256Mismatch`, `MalformedTrailerError`, `failure`; `IncompleteBody` before the source
    ///   has ended.
    package func outcome() throws(S3Error) -> Outcome {
        if let failure { throw failure }
        guard hasEnded else { throw S3Error(.incompleteBody) }
        let values = digests.finish()
        // Nothing that a client does comes here: somebody did not show the digests all bytes.
        guard values.count == delivered else { throw S3Error(.internalError) }
        if let sha256 = declared.sha256, !constantTimeEquals(sha256, values.sha256 ?? []) {
            throw S3Error(.xAmzContentSHA256Mismatch)
        }
        if let md5 = declared.md5, md5 != values.md5 {
            throw S3Error(.badDigest, "The Content-MD5 you specified did not match what we received.")
        }
        let announced = try trailer()
        if let checksum = declared.checksum ?? announced, checksum.value != values.checksum {
            throw S3Error(
                .badDigest,
                "The \(checksum.algorithm.s3Name) you specified did not match the calculated checksum."
            )
        }
        return Outcome(
            values: values,
            checksum: digests.algorithm.map { ObjectChecksum($0, value: values.checksum) }
        )
    }

    /// Pulls all of a document, and compares it.
    ///
    /// - Parameter limit: Most bytes.
    /// - Returns: Its bytes.
    /// - Throws: `MaxMessageLengthExceeded`; what `outcome` throws; what became of the connection.
    package func document(limit: Int) async throws(S3Error) -> [UInt8] {
        var tooLong = S3Error(
            .maxMessageLengthExceeded,
            details: [S3Error.Detail("MaxMessageLengthBytes", String(limit))]
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
            throw failure ?? S3Error(content: error)
        }
        digests.update(bytes)
        _ = try outcome()
        return bytes
    }

    // MARK: What the request says

    private static func declared(
        _ fields: HTTPFields,
        _ payload: SigV4Payload,
        _ kind: Kind,
        _ dialect: ObjectDialect
    ) throws(S3Error) -> Declared {
        let isChunked = fields.contains("Transfer-Encoding")
        let isAbsent = kind != .object && !fields.contains("Content-Length") && !isChunked
        var declared = Declared(length: isAbsent ? 0 : nil)
        if !isAbsent, dialect == .s3 || !isChunked { declared.length = try length(fields, payload) }
        if let text = fields["Content-MD5"] {
            guard let md5 = Base64.decode(text), md5.count == 16 else { throw S3Error(.invalidDigest) }
            declared.md5 = md5
        }
        if case .sha256(let hash) = payload { declared.sha256 = hash }
        if kind == .completion { return declared }
        declared.checksum = try ObjectChecksum.declared(fields)
        guard declared.checksum?.parts == nil else {
            throw S3Error(.invalidRequest, "A checksum of parts can not be that of the content of one request.")
        }
        declared.trailer = try trailer(fields, payload)
        guard declared.checksum == nil || declared.trailer == nil else {
            throw S3Error(
                .invalidRequest,
                "Expecting a single x-amz-checksum- header or trailer. Multiple checksum Types are not allowed."
            )
        }
        if let name = fields["x-amz-sdk-checksum-algorithm"] {
            guard let own = declared.checksum?.algorithm ?? declared.trailer else {
                throw S3Error(
                    .invalidRequest,
                    "x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or x-amz-trailer headers "
                        + "were found."
                )
            }
            guard ObjectChecksum.Algorithm(s3Name: name) == own else {
                throw S3Error(.invalidRequest, "Value for x-amz-sdk-checksum-algorithm header is invalid.")
            }
        }
        return declared
    }

    /// Bytes that the content of a request is to have: what is authorised, and what `next` holds the content to.
    ///
    /// - Parameters:
    ///   - fields: Of an effective head.
    ///   - payload: What the signature says of the content.
    ///   - dialect: Of the request.
    /// - Returns: `nil` if its end alone tells, or if it is not told as it must be.
    static func announcedLength(_ fields: HTTPFields, _ payload: SigV4Payload, _ dialect: ObjectDialect) -> Int64? {
        guard dialect == .s3 || !fields.contains("Transfer-Encoding") else { return nil }
        return fields[lengthField(payload)].flatMap { S3Parameters.number($0) }.map { Int64($0) }
    }

    /// The field that counts: of content that does not come in chunks the other one says nothing.
    private static func lengthField(_ payload: SigV4Payload) -> FieldName {
        payload.isWhole ? "Content-Length" : "x-amz-decoded-content-length"
    }

    private static func length(_ fields: HTTPFields, _ payload: SigV4Payload) throws(S3Error) -> Int64 {
        let name = lengthField(payload)
        guard let text = fields[name] else {
            throw S3Error(
                .missingContentLength,
                "You must provide the \(name.spelling) HTTP header.",
                details: [S3Error.Detail("Header", name.spelling)]
            )
        }
        guard let number = S3Parameters.number(text) else {
            throw .argument(name.spelling, text, "\(name.spelling) must be a number of bytes.")
        }
        return Int64(number)
    }

    private static func trailer(
        _ fields: HTTPFields,
        _ payload: SigV4Payload
    ) throws(S3Error) -> ObjectChecksum.Algorithm? {
        let names = fields.list("x-amz-trailer")
        guard let name = names.first else { return nil }
        guard payload.hasTrailers, names.count == 1,
            let algorithm = ObjectChecksum.Algorithm.allCases.first(where: { $0.s3Field == FieldName(name) })
        else { throw S3Error(.invalidRequest, "The value specified in the x-amz-trailer header is not supported") }
        return algorithm
    }

    /// The checksum that came behind the bytes.
    private func trailer() throws(S3Error) -> ObjectChecksum.Declared? {
        let trailers = chunks?.trailers ?? []
        guard let algorithm = declared.trailer else {
            guard trailers.isEmpty else { throw S3Error(.malformedTrailer) }
            return nil
        }
        guard trailers.count == 1, trailers[0].name == algorithm.s3Field.spelling else {
            throw S3Error(.malformedTrailer)
        }
        let checksum = try ObjectChecksum.Declared(algorithm, trailers[0].value)
        guard checksum.parts == nil else { throw S3Error(.malformedTrailer) }
        return checksum
    }
}

extension SigV4Payload {
    /// Not in chunks.
    fileprivate var isWhole: Bool {
        switch self {
        case .sha256, .unsigned: true
        case .signedChunks, .signedChunksAndTrailers, .unsignedChunksAndTrailers: false
        }
    }

    fileprivate var hasTrailers: Bool { self == .signedChunksAndTrailers || self == .unsignedChunksAndTrailers }
}
