internal import Bytes
internal import Digests
internal import HTTPWire
internal import Signing
internal import UploadModel

/// What a request declares about its content.
package struct DeclaredContent: Sendable {
    /// The kind of content a request has.
    package enum Kind: Sendable {
        /// Bytes to store; their number must be declared.
        case object
        /// A document; a request that declares no content has none.
        case document
        /// The document `CompleteMultipartUpload`; here `x-amz-checksum-…` applies to the object, not to the document.
        case completion
    }

    /// A number of bytes, or a text that is not a number.
    enum Size: Sendable, Equatable {
        case bytes(Int64)
        case malformed(String)

        init(_ text: String) {
            self = ObjectParameters.number(text).map { .bytes(Int64($0)) } ?? .malformed(text)
        }
    }

    /// `nil` for a request without content.
    let kind: Kind?
    /// The media type.
    package let type: String?
    let needsLength: Bool
    let length: Size?
    /// Data bytes in chunked content, without the framing.
    let decodedLength: Size?
    /// Whether only the end of the content reveals its size.
    let isChunked: Bool
    let md5: [UInt8]?
    /// CRC-64/XZ of an object or a part, as OSS and COS name it.
    let crc64: UInt64?
    /// SHA-1 of an object or a part, as clients of OSS and COS send it.
    let sha1: [UInt8]?
    let checksum: ObjectChecksum.Declared?
    let trailers: [String]
    /// Algorithm of the checksum that the SDK announces.
    let sdkAlgorithm: String?

    /// For a request without content.
    init() {
        kind = nil
        type = nil
        needsLength = true
        length = nil
        decodedLength = nil
        isChunked = false
        md5 = nil
        crc64 = nil
        sha1 = nil
        checksum = nil
        trailers = []
        sdkAlgorithm = nil
    }

    /// - Throws: `InvalidDigest`; `InvalidRequest` for an invalid checksum.
    package init(_ request: RequestReader, _ kind: Kind?) throws(ObjectError) {
        let fields = request.standard
        self.kind = kind
        type = fields["Content-Type"]
        needsLength = request.vendor.profile.needsLength
        length = fields["Content-Length"].map { Size($0) }
        isChunked = fields.contains("Transfer-Encoding")
        decodedLength = request["decoded-content-length"].map { Size($0) }
        guard let kind else {
            (md5, crc64, sha1, checksum, trailers, sdkAlgorithm) = (nil, nil, nil, nil, [], nil)
            return
        }
        func digest<Value>(_ name: String, _ read: (String) -> Value?) throws(ObjectError) -> Value? {
            guard kind == .object, let text = request[name], !text.isEmpty else { return nil }
            guard let value = read(text) else { throw ObjectError(.invalidDigest) }
            return value
        }
        crc64 = try digest("hash-crc64ecma") { UInt64($0) }
        sha1 = try digest(request.vendor == .aliyun ? "hash-sha1" : "content-sha1") { text in
            Hexadecimal.decode(text).flatMap { $0.count == DigestAlgorithm.sha1.byteCount ? $0 : nil }
        }
        md5 = try fields["Content-MD5"].map { (text) throws(ObjectError) in
            let md5 = Base64.decode(text) ?? []
            // OSS's SDK in C encodes four bytes more than the digest has, from what lies behind it.
            guard md5.count == 16 || md5.count == 20 && request.vendor == .aliyun else {
                throw ObjectError(.invalidDigest)
            }
            return Array(md5.prefix(16))
        }
        guard kind != .completion else {
            (checksum, trailers, sdkAlgorithm) = (nil, [], nil)
            return
        }
        checksum = try ObjectChecksum.declared(request)
        guard checksum?.parts == nil else {
            throw ObjectError(.invalidRequest, "A checksum of parts cannot be that of the content of one request.")
        }
        trailers = (request["trailer"] ?? "").split(separator: ",").map { Substring($0).trimmingWhitespace() }
            .filter { !$0.isEmpty }.map { String($0) }
        sdkAlgorithm = request["sdk-checksum-algorithm"]
    }

    /// Expected number of content bytes; used for authorisation and enforced by `ObjectBody`.
    ///
    /// - Parameter payload: The signature's statement about the content.
    /// - Returns: `nil` if only the end reveals it, or if the declaration is missing or invalid.
    func announcedLength(_ payload: SigV4Payload) -> Int64? {
        guard needsLength || !isChunked, case .bytes(let count) = size(payload) else { return nil }
        return count
    }

    /// The required number of content bytes.
    ///
    /// - Parameter payload: The signature's statement about the content.
    /// - Returns: `nil` if only the end reveals the length, as OSS clients may send it.
    /// - Throws: `MissingContentLength`, `InvalidArgument`.
    func length(_ payload: SigV4Payload) throws(ObjectError) -> Int64? {
        if kind != .object, length == nil, !isChunked { return 0 }
        guard needsLength || !isChunked else { return nil }
        let name = payload.isWhole ? "Content-Length" : "x-amz-decoded-content-length"
        switch size(payload) {
        case .bytes(let count)?: return count
        case .malformed(let text)?: throw .argument(name, text, "\(name) must be a number of bytes.")
        case nil:
            throw ObjectError(
                .missingContentLength,
                "You must provide the \(name) HTTP header.",
                details: [ObjectError.Detail("Header", name)]
            )
        }
    }

    /// The algorithm of a checksum announced for the trailer.
    ///
    /// - Throws: `InvalidRequest`, also if there is a checksum in a header field as well.
    func trailer(_ payload: SigV4Payload) throws(ObjectError) -> ObjectChecksum.Algorithm? {
        guard let name = trailers.first else { return nil }
        guard payload.hasTrailers, trailers.count == 1,
            let algorithm = ObjectChecksum.Algorithm.allCases.first(where: { $0.s3Field == FieldName(name) })
        else { throw ObjectError(.invalidRequest, "The value specified in the x-amz-trailer header is not supported") }
        guard checksum == nil else {
            throw ObjectError(
                .invalidRequest,
                "Expecting a single x-amz-checksum- header or trailer. Multiple checksum Types are not allowed."
            )
        }
        return algorithm
    }

    /// Compares the SDK's announced algorithm with the one it uses.
    ///
    /// - Parameter announced: The algorithm announced for the trailer.
    /// - Throws: `InvalidRequest`.
    func checkSDKAlgorithm(_ announced: ObjectChecksum.Algorithm?) throws(ObjectError) {
        guard let name = sdkAlgorithm else { return }
        guard let own = checksum?.algorithm ?? announced else {
            throw ObjectError(
                .invalidRequest,
                "x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or x-amz-trailer headers "
                    + "were found."
            )
        }
        guard ObjectChecksum.Algorithm(s3Name: name) == own else {
            throw ObjectError(.invalidRequest, "Value for x-amz-sdk-checksum-algorithm header is invalid.")
        }
    }

    /// The size that counts: the decoded length is ignored for content that is not in chunks.
    func size(_ payload: SigV4Payload) -> Size? { payload.isWhole ? length : decodedLength }
}

extension SigV4Payload {
    /// Whether the content is not in chunks.
    var isWhole: Bool {
        switch self {
        case .sha256, .unsigned: true
        case .signedChunks, .signedChunksAndTrailers, .unsignedChunksAndTrailers: false
        }
    }

    var hasTrailers: Bool { self == .signedChunksAndTrailers || self == .unsignedChunksAndTrailers }
}
