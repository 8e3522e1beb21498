internal import Bytes
package import Foundation
package import UploadCore

/// Documents about multipart uploads, copies and forms.
package enum S3Uploads {
    /// A document `InitiateMultipartUploadResult`.
    package static func initiated(
        _ name: ObjectName,
        uploadID: String,
        for dialect: ObjectDialect = .s3
    ) -> [UInt8] {
        var document = XMLWriter("InitiateMultipartUploadResult", dialect)
        document.element("Bucket", name.bucket)
        document.element("Key", name.key)
        document.element("UploadId", uploadID)
        return document.finished()
    }

    /// A document `CompleteMultipartUploadResult`.
    ///
    /// - Parameters:
    ///   - name: Of the object.
    ///   - location: Its URL.
    ///   - entityTag: Without quotes.
    ///   - checksum: If it has one.
    ///   - parts: How many it was made of.
    ///   - dialect: Whose client reads it.
    /// - Returns: XML.
    package static func completed(
        _ name: ObjectName,
        location: String,
        entityTag: String,
        checksum: ObjectChecksum?,
        parts: Int,
        for dialect: ObjectDialect = .s3
    ) -> [UInt8] {
        var document = XMLWriter("CompleteMultipartUploadResult", dialect)
        document.element("Location", location)
        document.element("Bucket", name.bucket)
        document.element("Key", name.key)
        document.element(entityTag: entityTag)
        write(checksum, parts: parts, to: &document)
        return document.finished()
    }

    /// A document `CopyObjectResult`.
    package static func copied(
        entityTag: String,
        modifiedAt: Date,
        checksum: ObjectChecksum?,
        for dialect: ObjectDialect = .s3
    ) -> [UInt8] {
        copy("CopyObjectResult", dialect, entityTag: entityTag, modifiedAt: modifiedAt, checksum: checksum)
    }

    /// A document `CopyPartResult`.
    package static func copiedPart(
        _ part: PartRecord,
        checksum algorithm: ObjectChecksum.Algorithm?,
        for dialect: ObjectDialect = .s3
    ) -> [UInt8] {
        let checksum = algorithm.flatMap { algorithm in
            part.checksum.map { ObjectChecksum(algorithm, value: $0) }
        }
        return copy(
            "CopyPartResult",
            dialect,
            entityTag: Hexadecimal.encode(part.md5),
            modifiedAt: part.storedAt,
            checksum: checksum
        )
    }

    private static func copy(
        _ root: String,
        _ dialect: ObjectDialect,
        entityTag: String,
        modifiedAt: Date,
        checksum: ObjectChecksum?
    ) -> [UInt8] {
        var document = XMLWriter(root, dialect)
        document.element("LastModified", modifiedAt)
        document.element(entityTag: entityTag)
        write(checksum, parts: nil, type: root != "CopyPartResult", to: &document)
        return document.finished()
    }

    /// A document `PostResponse`, for a form that asks for the status 201.
    package static func posted(
        _ name: ObjectName,
        location: String,
        entityTag: String,
        for dialect: ObjectDialect = .s3
    ) -> [UInt8] {
        var document = XMLWriter("PostResponse", dialect, hasNamespace: false)
        document.element("Location", location)
        document.element("Bucket", name.bucket)
        document.element("Key", name.key)
        document.element(entityTag: entityTag)
        return document.finished()
    }

    /// A document `ListPartsResult`.
    ///
    /// - Parameters:
    ///   - name: Of the object.
    ///   - listing: What was asked for.
    ///   - parts: Those with greater numbers than the marker, in order; one more than is asked for, if there is one.
    ///   - checksum: Kind of checksum that the upload was created with.
    ///   - owner: Of the upload.
    ///   - dialect: Whose client reads it.
    /// - Returns: XML.
    package static func parts(
        of name: ObjectName,
        _ listing: S3PartListing,
        _ parts: [PartRecord],
        checksum: ObjectChecksum?,
        owner: S3Owner,
        for dialect: ObjectDialect = .s3
    ) -> [UInt8] {
        let text = S3KeyText(encodesURL: listing.encodesURL)
        let shown = parts.prefix(listing.maximum)
        var document = XMLWriter("ListPartsResult", dialect)
        document.element("Bucket", name.bucket)
        document.element("Key", text(name.key))
        document.element("UploadId", listing.uploadID)
        owner.write("Initiator", to: &document)
        owner.write("Owner", to: &document)
        document.element("StorageClass", dialect.storageClass)
        document.element("PartNumberMarker", listing.marker)
        let isTruncated = listing.maximum > 0 && parts.count > shown.count
        // Android clients of COS go on as long as there is one.
        if dialect != .cos || isTruncated { document.element("NextPartNumberMarker", shown.last?.number ?? 0) }
        document.element("MaxParts", listing.maximum)
        if listing.encodesURL { document.element("EncodingType", "url") }
        document.element("IsTruncated", isTruncated)
        if let checksum {
            document.element("ChecksumAlgorithm", checksum.algorithm.s3Name)
            document.element("ChecksumType", checksum.s3Type)
        }
        for part in shown {
            document.element("Part") { node in
                node.element("PartNumber", part.number)
                node.element("LastModified", part.storedAt)
                node.element(entityTag: Hexadecimal.encode(part.md5))
                node.element("Size", part.size)
                if dialect == .oss { node.element("HashCrc64ecma", part.crc64) }
                if let checksum, let value = part.checksum {
                    node.element(checksum.algorithm.s3Element, Base64.encode(value))
                }
            }
        }
        return document.finished()
    }

    private static func write(
        _ checksum: ObjectChecksum?,
        parts: Int?,
        type: Bool = true,
        to document: inout XMLWriter
    ) {
        guard let checksum, let text = checksum.text(parts: parts) else { return }
        document.element(checksum.algorithm.s3Element, text)
        if type { document.element("ChecksumType", checksum.s3Type) }
    }
}
