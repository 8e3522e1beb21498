internal import Bytes
package import HTTPWire
package import UploadCore
internal import XMLText

/// A part that a request joins with others (`CompleteMultipartUpload`).
package struct S3CompletedPart: Sendable, Equatable {
    /// 1 to 10,000.
    package let number: Int
    /// Without quotes.
    package let entityTag: String
    /// The checksums that the part must have.
    package let checksums: [ObjectChecksum.Algorithm: [UInt8]]

    /// What the head of a request that joins parts says the object must be.
    package struct Expectation: Sendable, Equatable {
        /// With the number of parts if it is that of their checksums.
        package let checksum: ObjectChecksum.Declared?
        /// Bytes.
        package let size: Int64?

        /// - Parameter head: An effective one, see `S3Request.effectiveHead`.
        /// - Throws: `InvalidRequest`, `InvalidArgument`.
        package init(_ head: RequestHead) throws(S3Error) {
            checksum = try ObjectChecksum.declared(head.fields)
            let text = head.fields["x-amz-mp-object-size"]
            size = text.flatMap { S3Parameters.number($0) }.map { Int64($0) }
            guard text == nil || size != nil else {
                throw .argument("x-amz-mp-object-size", text, "x-amz-mp-object-size must be a number of bytes.")
            }
        }

        /// Compares what the parts make with it.
        ///
        /// - Parameters:
        ///   - checksum: Of the object; `nil` if none is known.
        ///   - parts: How many it is made of.
        ///   - size: Its bytes.
        /// - Throws: `BadDigest`; `InvalidRequest` for another size, or another kind of checksum than the upload has.
        package func check(_ checksum: ObjectChecksum?, parts: Int, size: Int64) throws(S3Error) {
            if let expected = self.size, expected != size {
                throw S3Error(
                    .invalidRequest,
                    "The provided 'x-amz-mp-object-size' header value \(expected) does not match what was computed: \(size)"
                )
            }
            guard let expected = self.checksum else { return }
            guard let checksum, checksum.algorithm == expected.algorithm else {
                throw S3Error(
                    .invalidRequest,
                    "Checksum Type mismatch occurred, expected checksum Type: \(checksum?.algorithm.rawValue ?? "null"), "
                        + "actual checksum Type: \(expected.algorithm.rawValue)"
                )
            }
            // Some SDKs leave the number of parts out.
            guard expected.value == checksum.value, expected.parts == nil || checksum.isComposite,
                expected.parts ?? parts == parts
            else {
                throw S3Error(
                    .badDigest,
                    "The \(expected.algorithm.s3Name) you specified did not match the calculated checksum."
                )
            }
        }
    }

    /// Reads the list of parts.
    ///
    /// - Parameter bytes: The document.
    /// - Returns: At least one part, by growing numbers.
    /// - Throws: `MalformedXML`, `InvalidArgument` for a number, `InvalidPart` for a tag or checksum that no part can have,
    ///   `InvalidPartOrder`.
    package static func list(document bytes: [UInt8]) throws(S3Error) -> [S3CompletedPart] {
        let root = try S3Documents.root(bytes, "CompleteMultipartUpload", limit: S3Documents.Limit.completion)
        guard (1...PartRecord.numbers.upperBound).contains(root.children.count) else { throw S3Error(.malformedXML) }
        var parts: [S3CompletedPart] = []
        parts.reserveCapacity(root.children.count)
        for node in root.children {
            guard node.name == "Part" else { throw S3Error(.malformedXML) }
            let part = try S3CompletedPart(node)
            if let last = parts.last, last.number >= part.number { throw S3Error(.invalidPartOrder) }
            parts.append(part)
        }
        return parts
    }

    private init(_ node: XMLNode) throws(S3Error) {
        guard let numeral = node.trimmed("PartNumber"), let number = S3Parameters.number(numeral),
            let tag = node.trimmed("ETag"), !tag.isEmpty
        else { throw S3Error(.malformedXML) }
        guard PartRecord.numbers.contains(number) else {
            throw .argument("PartNumber", numeral, "Part number must be an integer between 1 and 10000, inclusive")
        }
        var checksums: [ObjectChecksum.Algorithm: [UInt8]] = [:]
        for algorithm in ObjectChecksum.Algorithm.allCases {
            guard let text = node.trimmed(algorithm.s3Element), !text.isEmpty else { continue }
            guard let value = Base64.decode(text), value.count == algorithm.byteCount else {
                throw S3Error(.invalidPart, details: [S3Error.Detail("PartNumber", numeral)])
            }
            checksums[algorithm] = value
        }
        self.number = number
        entityTag = Self.unquoted(tag)
        self.checksums = checksums
    }

    private static func unquoted(_ tag: String) -> String {
        let bytes = tag.utf8
        let quote = UInt8(ascii: "\"")
        guard bytes.count >= 2, bytes.first == quote, bytes.last == quote else { return tag }
        return String(Substring(bytes.dropFirst().dropLast()))
    }
}
