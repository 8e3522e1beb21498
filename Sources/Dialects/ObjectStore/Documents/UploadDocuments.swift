internal import Bytes
package import Foundation
package import Signing
internal import UploadCore
package import UploadModel

/// Documents about multipart uploads, copies and forms.
package enum UploadDocuments {
    /// A document `InitiateMultipartUploadResult`.
    package static func initiated(
        _ name: ObjectName,
        uploadID: String,
        for vendor: Vendor = .aws
    ) -> [UInt8] {
        var document = XMLWriter("InitiateMultipartUploadResult", vendor)
        document.element("Bucket", name.bucket)
        document.element("Key", name.key)
        document.element("UploadId", uploadID)
        return document.finished()
    }

    /// A document `CompleteMultipartUploadResult`.
    ///
    /// - Parameters:
    ///   - name: Name of the object.
    ///   - location: Its URL.
    ///   - entityTag: Without quotes.
    ///   - checksum: Its checksum, if it has one.
    ///   - parts: Number of parts.
    ///   - vendor: The vendor whose client reads it.
    /// - Returns: XML.
    package static func completed(
        _ name: ObjectName,
        location: String,
        entityTag: String,
        checksum: ObjectChecksum?,
        parts: Int,
        for vendor: Vendor = .aws
    ) -> [UInt8] {
        var document = XMLWriter("CompleteMultipartUploadResult", vendor)
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
        for vendor: Vendor = .aws
    ) -> [UInt8] {
        copy("CopyObjectResult", vendor, entityTag: entityTag, modifiedAt: modifiedAt, checksum: checksum)
    }

    /// A document `PostResponse`, for a form that requests status 201.
    package static func copiedPart(
        _ part: PartRecord,
        checksum algorithm: ObjectChecksum.Algorithm?,
        for vendor: Vendor = .aws
    ) -> [UInt8] {
        let checksum = algorithm.flatMap { algorithm in
            part.checksum.map { ObjectChecksum(algorithm, value: $0) }
        }
        return copy(
            "CopyPartResult",
            vendor,
            entityTag: Hexadecimal.encode(part.md5),
            modifiedAt: part.storedAt,
            checksum: checksum
        )
    }

    private static func copy(
        _ root: String,
        _ vendor: Vendor,
        entityTag: String,
        modifiedAt: Date,
        checksum: ObjectChecksum?
    ) -> [UInt8] {
        var document = XMLWriter(root, vendor)
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
        for vendor: Vendor = .aws
    ) -> [UInt8] {
        var document = XMLWriter("PostResponse", vendor, hasNamespace: false)
        document.element("Location", location)
        document.element("Bucket", name.bucket)
        document.element("Key", name.key)
        document.element(entityTag: entityTag)
        return document.finished()
    }

    /// A document `ListPartsResult`.
    ///
    /// - Parameters:
    ///   - name: Name of the object.
    ///   - listing: The requested page.
    ///   - parts: Parts after the marker, in order; one more than requested, if there is one.
    ///   - checksum: Checksum type chosen at creation.
    ///   - owner: Owner of the upload.
    ///   - vendor: The vendor whose client reads it.
    /// - Returns: XML.
    package static func parts(
        of name: ObjectName,
        _ listing: PartListing,
        _ parts: [PartRecord],
        checksum: ObjectChecksum?,
        owner: ObjectOwner,
        for vendor: Vendor = .aws
    ) -> [UInt8] {
        let text = KeyText(encodesURL: listing.encodesURL)
        let shown = parts.prefix(listing.maximum)
        var document = XMLWriter("ListPartsResult", vendor)
        document.element("Bucket", name.bucket)
        document.element("Key", text(name.key))
        document.element("UploadId", listing.uploadID)
        owner.write("Initiator", to: &document)
        owner.write("Owner", to: &document)
        document.element("StorageClass", vendor.profile.storageClass)
        document.element("PartNumberMarker", listing.marker)
        let isTruncated = listing.maximum > 0 && parts.count > shown.count
        // Android clients of COS continue as long as this element is present.
        if let none = vendor.profile.documents.nextPartOfNone {
            document.element("NextPartNumberMarker", shown.last.map { String($0.number) } ?? none)
        } else if isTruncated, let last = shown.last {
            document.element("NextPartNumberMarker", last.number)
        }
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
                if vendor.profile.documents.namesObjectTypes { node.element("HashCrc64ecma", part.crc64) }
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
