internal import Bytes
package import HTTPWire
package import UploadModel

/// Names and text forms of checksums ("Checking object integrity", Amazon S3 User Guide).
extension ObjectChecksum.Algorithm {
    /// As in `x-amz-checksum-algorithm`, such as `CRC64NVME`.
    package var s3Name: String { rawValue.uppercasedASCII() }

    /// Such as `x-amz-checksum-crc64nvme`; also the name of a trailer.
    package var s3Field: FieldName {
        switch self {
        case .crc32: "x-amz-checksum-crc32"
        case .crc32c: "x-amz-checksum-crc32c"
        case .crc64nvme: "x-amz-checksum-crc64nvme"
        case .sha1: "x-amz-checksum-sha1"
        case .sha256: "x-amz-checksum-sha256"
        }
    }

    /// In documents, such as `ChecksumCRC64NVME`.
    package var s3Element: String { "Checksum" + s3Name }

    /// Size of a checksum in bytes.
    package var byteCount: Int {
        switch self {
        case .crc32, .crc32c: 4
        case .crc64nvme: 8
        case .sha1: 20
        case .sha256: 32
        }
    }

    /// Whether the checksum of the whole can be computed from those of its parts.
    package var isCyclic: Bool { self == .crc32 || self == .crc32c || self == .crc64nvme }

    /// The algorithm with that name, case-insensitive.
    init?(s3Name: String) {
        self.init(rawValue: s3Name.lowercasedASCII())
    }
}

extension ObjectChecksum {
    /// As in headers and documents: Base64; a composite checksum is followed by `-` and the number of parts.
    ///
    /// - Parameter parts: Number of parts, for a composite checksum.
    /// - Returns: `nil` if the checksum is not known.
    package func text(parts: Int?) -> String? {
        guard let value else { return nil }
        let text = Base64.encode(value)
        return isComposite ? "\(text)-\(parts ?? 1)" : text
    }

    /// As in `x-amz-checksum-type`.
    package var s3Type: String { isComposite ? "COMPOSITE" : "FULL_OBJECT" }

    /// Adds the checksum to the header fields of a response.
    package func add(to fields: inout HTTPFields, parts: Int?) {
        guard let text = text(parts: parts) else { return }
        fields[algorithm.s3Field] = text
        fields["x-amz-checksum-type"] = s3Type
    }

    /// The checksum type of a new multipart upload; `nil` for none.
    ///
    /// - Throws: `InvalidRequest` for an unknown algorithm, or a type it does not support ("Full object and composite
    ///   checksum types for multipart uploads").
    static func ofNewMultipartUpload(_ request: RequestReader) throws(ObjectError) -> ObjectChecksum? {
        let isComposite = try isComposite(request)
        guard let name = request["checksum-algorithm"] else {
            guard isComposite == nil else {
                throw ObjectError(
                    .invalidRequest,
                    "The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm header."
                )
            }
            return nil
        }
        guard let algorithm = Algorithm(s3Name: name) else { throw .unknownChecksum }
        switch isComposite {
        case nil: return ObjectChecksum(algorithm, isComposite: algorithm != .crc64nvme)
        case true? where algorithm != .crc64nvme: return ObjectChecksum(algorithm, isComposite: true)
        case false? where algorithm.isCyclic: return ObjectChecksum(algorithm)
        case let isComposite?:
            let type = isComposite ? "COMPOSITE" : "FULL_OBJECT"
            throw ObjectError(
                .invalidRequest,
                "The \(type) checksum type cannot be used with the \(algorithm.rawValue) checksum algorithm."
            )
        }
    }

    /// Whether a request asks for a checksum of the parts or of all bytes; `nil` if it does not say.
    ///
    /// - Throws: `InvalidArgument`.
    static func isComposite(_ request: RequestReader) throws(ObjectError) -> Bool? {
        switch request["checksum-type"]?.uppercasedASCII() {
        case nil: return nil
        case "COMPOSITE": return true
        case "FULL_OBJECT": return false
        case let other:
            throw .argument("x-amz-checksum-type", other, "Value for x-amz-checksum-type header is invalid.")
        }
    }

    /// A checksum that a request declares, with the number of parts if it is composite.
    package struct Declared: Sendable, Equatable {
        package let algorithm: Algorithm
        package let value: [UInt8]
        /// Number of parts of a composite checksum; `nil` for a checksum of all bytes.
        package let parts: Int?

        /// - Throws: `InvalidRequest` for a malformed checksum.
        init(_ algorithm: Algorithm, _ text: String) throws(ObjectError) {
            let pieces = text.split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
            var parts: Int?
            if pieces.count == 2 { parts = ObjectParameters.number(pieces[1]) }
            guard let value = pieces.first.flatMap({ Base64.decode($0) }), value.count == algorithm.byteCount,
                pieces.count == 1 || parts != nil
            else {
                throw ObjectError(.invalidRequest, "Value for \(algorithm.s3Field) header is invalid.")
            }
            self.algorithm = algorithm
            self.value = value
            self.parts = parts
        }
    }

    /// The checksum in the field `x-amz-checksum-…`, or `nil` without such a field; it may occur only once.
    ///
    /// - Throws: `InvalidRequest`.
    static func declared(_ request: RequestReader) throws(ObjectError) -> Declared? {
        var declared: Declared?
        for (name, value) in request.all("checksum-") where !["algorithm", "type", "mode"].contains(name) {
            guard let algorithm = Algorithm(s3Name: String(name)) else { throw .unknownChecksum }
            guard declared == nil else {
                throw ObjectError(
                    .invalidRequest,
                    "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed."
                )
            }
            declared = try Declared(algorithm, value)
        }
        return declared
    }
}

extension ObjectError {
    static let unknownChecksum = ObjectError(
        .invalidRequest,
        "Checksum algorithm provided is unsupported. Please try again with any of the valid types: "
            + "[CRC32, CRC32C, CRC64NVME, SHA1, SHA256]"
    )
}
