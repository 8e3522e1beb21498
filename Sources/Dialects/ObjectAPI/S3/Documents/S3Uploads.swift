internal import Bytes
package import Foundation
package import UploadCore

/// Documents about multipart uploads, copies and forms.
package enum S3Uploads {
    /// A document `InitiateMultipartUploadResult`.
    package static func initiated(_ name: ObjectName, uploadID: String) -> [UInt8] {
        var document = XMLWriter("InitiateMultipartUploadResult")
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
    /// - Returns: XML.
    package static func completed(
        _ name: ObjectName,
        location: String,
        entityTag: String,
        checksum: ObjectChecksum?,
        parts: Int
    ) -> [UInt8] {
        var document = XMLWriter("CompleteMultipartUploadResult")
        document.element("Location", location)
        document.element("Bucket", name.bucket)
        document.element("Key", name.key)
        document.element("ETag", "\"\(entityTag)\"")
        write(checksum, parts: parts, to: &document)
        return document.finished()
    }

    /// A document `CopyObjectResult`.
    package static func copied(entityTag: String, modifiedAt: Date, checksum: ObjectChecksum?, parts: Int?) -> [UInt8] {
        copy("CopyObjectResult", entityTag: entityTag, modifiedAt: modifiedAt, checksum: checksum, parts: parts)
    }

    /// A document `CopyPartResult`.
    package static func copiedPart(_ part: PartRecord, checksum algorithm: ObjectChecksum.Algorithm?) -> [UInt8] {
        let checksum = algorithm.flatMap { algorithm in
            part.checksum.map { ObjectChecksum(algorithm, value: $0) }
        }
        return copy(
            "CopyPartResult",
            entityTag: Hexadecimal.encode(part.md5),
            modifiedAt: part.storedAt,
            checksum: checksum,
            parts: nil
        )
    }

    private static func copy(
        _ root: String,
        entityTag: String,
        modifiedAt: Date,
        checksum: ObjectChecksum?,
        parts: Int?
    ) -> [UInt8] {
        var document = XMLWriter(root)
        document.element("LastModified", modifiedAt)
        document.element("ETag", "\"\(entityTag)\"")
        write(checksum, parts: parts, type: root != "CopyPartResult", to: &document)
        return document.finished()
    }

    /// A document `PostResponse`, for a form that asks for the status 201.
    package static func posted(_ name: ObjectName, location: String, entityTag: String) -> [UInt8] {
        var document = XMLWriter("PostResponse", namespace: nil)
        document.element("Location", location)
        document.element("Bucket", name.bucket)
        document.element("Key", name.key)
        document.element("ETag", "\"\(entityTag)\"")
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
    /// - Returns: XML.
    package static func parts(
        of name: ObjectName,
        _ listing: S3PartListing,
        _ parts: [PartRecord],
        checksum: ObjectChecksum?,
        owner: S3Owner
    ) -> [UInt8] {
        let text = S3KeyText(encodesURL: listing.encodesURL)
        let shown = parts.prefix(listing.maximum)
        var document = XMLWriter("ListPartsResult")
        document.element("Bucket", name.bucket)
        document.element("Key", text(name.key))
        document.element("UploadId", listing.uploadID)
        owner.write("Initiator", to: &document)
        owner.write("Owner", to: &document)
        document.element("StorageClass", "STANDARD")
        document.element("PartNumberMarker", listing.marker)
        document.element("NextPartNumberMarker", shown.last?.number ?? 0)
        document.element("MaxParts", listing.maximum)
        if listing.encodesURL { document.element("EncodingType", "url") }
        document.element("IsTruncated", listing.maximum > 0 && parts.count > shown.count)
        if let checksum {
            document.element("ChecksumAlgorithm", checksum.algorithm.s3Name)
            document.element("ChecksumType", checksum.s3Type)
        }
        for part in shown {
            document.element("Part") { node in
                node.element("PartNumber", part.number)
                node.element("LastModified", part.storedAt)
                node.element("ETag", "\"\(Hexadecimal.encode(part.md5))\"")
                node.element("Size", part.size)
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
