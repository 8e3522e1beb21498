internal import Bytes
internal import UploadCore
package import UploadModel
internal import XMLText

/// A part in a request to complete an upload (`CompleteMultipartUpload`).
package struct CompletedPart: Sendable, Equatable {
    /// 1 to 10,000.
    package let number: Int
    /// Without quotes.
    package let entityTag: String
    /// Checksums that the part must match.
    package let checksums: [ObjectChecksum.Algorithm: [UInt8]]

    /// What the head of the completing request says the object must match.
    package struct Expectation: Sendable, Equatable {
        /// Includes the number of parts if it is a composite checksum.
        package let checksum: ObjectChecksum.Declared?
        /// Whether the checksum is one of the parts (`x-amz-checksum-type`).
        package let isComposite: Bool?
        /// Bytes.
        package let size: Int64?

        /// - Throws: `InvalidRequest`, `InvalidArgument`.
        init(_ request: RequestReader) throws(ObjectError) {
            checksum = try ObjectChecksum.declared(request)
            isComposite = try ObjectChecksum.isComposite(request)
            let text = request["mp-object-size"]
            size = text.flatMap { ObjectParameters.number($0) }.map { Int64($0) }
            guard text == nil || size != nil else {
                throw .argument("x-amz-mp-object-size", text, "x-amz-mp-object-size must be a number of bytes.")
            }
        }

        /// Compares the joined parts with the expectation.
        ///
        /// - Parameters:
        ///   - checksum: Checksum of the object; `nil` if unknown.
        ///   - parts: Number of parts.
        ///   - size: Object size in bytes.
        /// - Throws: `BadDigest`, also for a checksum of another kind than the upload's; `InvalidRequest` for a wrong
        ///   size, or another algorithm.
        package func check(_ checksum: ObjectChecksum?, parts: Int, size: Int64) throws(ObjectError) {
            if let expected = self.size, expected != size {
                throw ObjectError(
                    .invalidRequest,
                    "The provided 'x-amz-mp-object-size' header value \(expected) does not match what was computed: \(size)"
                )
            }
            // Uploads for which no checksum was asked have one of all bytes, in S3.
            if let isComposite, isComposite != checksum?.isComposite ?? false {
                throw ObjectError(.badDigest, "The upload was begun with another checksum type.")
            }
            guard let expected = self.checksum else { return }
            guard let checksum, checksum.algorithm == expected.algorithm else {
                throw ObjectError(
                    .invalidRequest,
                    "Checksum Type mismatch occurred, expected checksum Type: \(checksum?.algorithm.rawValue ?? "null"), "
                        + "actual checksum Type: \(expected.algorithm.rawValue)"
                )
            }
            // Some SDKs omit the number of parts.
            guard expected.value == checksum.value, expected.parts == nil || checksum.isComposite,
                expected.parts ?? parts == parts
            else {
                throw ObjectError(
                    .badDigest,
                    "The \(expected.algorithm.s3Name) you specified did not match the calculated checksum."
                )
            }
        }
    }

    /// Parses the list of parts.
    ///
    /// - Parameters:
    ///   - bytes: The document.
    ///   - canBeEmpty: Whether a list without parts is accepted.
    /// - Returns: By ascending number.
    /// - Throws: `MalformedXML`, `InvalidArgument` for an invalid number, `InvalidPart` for a malformed tag or
    ///   checksum, `InvalidPartOrder`.
    package static func list(
        document bytes: [UInt8],
        canBeEmpty: Bool = false
    ) throws(ObjectError) -> [CompletedPart] {
        let root = try RequestDocuments.root(
            bytes,
            "CompleteMultipartUpload",
            limit: RequestDocuments.Limit.completion,
            nesting: ["Part"],
            repeating: ["Part"]
        )
        guard ((canBeEmpty ? 0 : 1)...PartRecord.numbers.upperBound).contains(root.children.count) else {
            throw ObjectError(.malformedXML)
        }
        var parts: [CompletedPart] = []
        parts.reserveCapacity(root.children.count)
        for node in root.children {
            guard node.name == "Part" else { throw ObjectError(.malformedXML) }
            let part = try CompletedPart(node)
            if let last = parts.last, last.number >= part.number { throw ObjectError(.invalidPartOrder) }
            parts.append(part)
        }
        return parts
    }

    private init(_ node: XMLNode) throws(ObjectError) {
        guard let numeral = node.trimmed("PartNumber"), let number = ObjectParameters.number(numeral),
            let tag = node.trimmed("ETag"), !tag.isEmpty
        else { throw ObjectError(.malformedXML) }
        guard PartRecord.numbers.contains(number) else {
            throw .argument("PartNumber", numeral, "Part number must be an integer between 1 and 10000, inclusive")
        }
        var checksums: [ObjectChecksum.Algorithm: [UInt8]] = [:]
        for algorithm in ObjectChecksum.Algorithm.allCases {
            guard let text = node.trimmed(algorithm.s3Element), !text.isEmpty else { continue }
            guard let value = Base64.decode(text), value.count == algorithm.byteCount else {
                throw ObjectError(.invalidPart, details: [ObjectError.Detail("PartNumber", numeral)])
            }
            checksums[algorithm] = value
        }
        self.number = number
        entityTag = Self.unquoted(tag)
        self.checksums = checksums
    }

    /// The checksum that the part must have, in an upload with this algorithm.
    ///
    /// No other algorithm can be checked any more; Amazon S3 refuses them alike.
    ///
    /// - Throws: `BadDigest` for another algorithm; `InvalidPart` for any in an upload without one.
    package func checksum(by algorithm: ObjectChecksum.Algorithm?) throws(ObjectError) -> [UInt8]? {
        guard let algorithm else {
            guard checksums.isEmpty else {
                throw ObjectError(.invalidPart, details: [ObjectError.Detail("PartNumber", String(number))])
            }
            return nil
        }
        for other in ObjectChecksum.Algorithm.allCases where other != algorithm && checksums[other] != nil {
            throw ObjectError(
                .badDigest,
                "The \(other.s3Name) you specified for part \(number) did not match what we received."
            )
        }
        return checksums[algorithm]
    }

    private static func unquoted(_ tag: String) -> String {
        let bytes = tag.utf8
        let quote = UInt8(ascii: "\"")
        guard bytes.count >= 2, bytes.first == quote, bytes.last == quote else { return tag }
        return String(Substring(bytes.dropFirst().dropLast()))
    }
}
