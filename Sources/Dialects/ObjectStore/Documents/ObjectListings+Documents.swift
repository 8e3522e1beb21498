package import Foundation
internal import HTTPWire
package import Signing
package import UploadModel

/// An object in a listing.
package struct ListedObject: Sendable, Equatable {
    package let key: String
    package let size: Int64
    /// Without quotes.
    package let entityTag: String
    package let modifiedAt: Date
    package let checksum: ObjectChecksum?
    /// How it was uploaded, in OSS's terms.
    package let typeOfOSS: String

    package init(
        key: String,
        size: Int64,
        entityTag: String,
        modifiedAt: Date,
        checksum: ObjectChecksum? = nil,
        typeOfOSS: String = "Normal"
    ) {
        self.key = key
        self.size = size
        self.entityTag = entityTag
        self.modifiedAt = modifiedAt
        self.checksum = checksum
        self.typeOfOSS = typeOfOSS
    }
}

/// An open multipart upload in a listing.
package struct ListedUpload: Sendable, Equatable {
    package let key: String
    package let uploadID: String
    package let createdAt: Date
    package let checksum: ObjectChecksum?

    package init(key: String, uploadID: String, createdAt: Date, checksum: ObjectChecksum? = nil) {
        self.key = key
        self.uploadID = uploadID
        self.createdAt = createdAt
        self.checksum = checksum
    }
}

/// How keys are written in a document: unchanged or URL-encoded (`encoding-type`).
struct KeyText {
    let encodesURL: Bool

    /// Slashes stay.
    ///
    /// A space becomes `%20`, which decodes correctly as a form and as a URL.
    func callAsFunction(_ key: String) -> String {
        guard encodesURL else { return key }
        return PercentEncoding.encode(key) { PercentEncoding.isUnreserved($0) || $0 == UInt8(ascii: "/") }
    }

    func write(_ prefixes: [String], to document: inout XMLWriter) {
        for prefix in prefixes {
            document.element("CommonPrefixes") { $0.element("Prefix", self(prefix)) }
        }
    }
}

extension ObjectListing {
    /// A document `ListBucketResult`, or `ListVersionsResult`.
    ///
    /// - Parameters:
    ///   - page: The page to write.
    ///   - owner: The owner of all objects.
    ///   - vendor: The vendor whose client reads it.
    /// - Returns: XML.
    package func document(
        _ page: ListingPage<ListedObject>,
        owner: ObjectOwner,
        for vendor: Vendor = .aws
    ) -> [UInt8] {
        let text = KeyText(encodesURL: encodesURL)
        let listsVersions = version == .versions
        var document = XMLWriter(listsVersions ? "ListVersionsResult" : "ListBucketResult", vendor)
        document.element("Name", bucket)
        document.element("Prefix", text(prefix))
        switch version {
        case .one:
            document.element("Marker", text(marker ?? ""))
            // S3 clients without a delimiter use the last key instead.
            if delimiter != nil || vendor.profile.documents.namesNextMarker {
                document.element("NextMarker", ifPresent: page.next.map { text($0.marker) })
            }
        case .versions:
            document.element("KeyMarker", text(marker ?? ""))
            document.element("VersionIdMarker", "")
            if let next = page.next {
                document.element("NextKeyMarker", text(next.marker))
                document.element("NextVersionIdMarker", Self.onlyVersion)
            }
        case .two:
            document.element("KeyCount", page.count)
            document.element("ContinuationToken", ifPresent: token)
            document.element("NextContinuationToken", ifPresent: page.next?.token)
            document.element("StartAfter", ifPresent: marker.map { text($0) })
        }
        document.element("MaxKeys", maximum)
        // OSS always has it, and its SDK for Python fails without it in a list of versions.
        document.element("Delimiter", ifPresent: delimiter.map { text($0) } ?? (vendor == .aliyun ? "" : nil))
        if encodesURL { document.element("EncodingType", "url") }
        document.element("IsTruncated", page.isTruncated)
        for object in page.items {
            document.element(listsVersions ? "Version" : "Contents") { node in
                node.element("Key", text(object.key))
                if listsVersions {
                    node.element("VersionId", Self.onlyVersion)
                    node.element("IsLatest", true)
                }
                node.element("LastModified", object.modifiedAt)
                node.element(entityTag: object.entityTag)
                if let checksum = object.checksum {
                    node.element("ChecksumAlgorithm", checksum.algorithm.s3Name)
                    node.element("ChecksumType", checksum.s3Type)
                }
                if vendor.profile.documents.namesObjectTypes { node.element("Type", object.typeOfOSS) }
                node.element("Size", object.size)
                if wantsOwner { owner.write("Owner", to: &node) }
                node.element("StorageClass", vendor.profile.storageClass)
            }
        }
        text.write(page.commonPrefixes, to: &document)
        return document.finished()
    }
}

extension ObjectListing {
    /// The id of an object's version in a bucket that never had versions.
    private static let onlyVersion = "null"
}

extension UploadListing {
    /// A document `ListMultipartUploadsResult`.
    package func document(
        _ page: ListingPage<ListedUpload>,
        owner: ObjectOwner,
        for vendor: Vendor = .aws
    ) -> [UInt8] {
        let text = KeyText(encodesURL: encodesURL)
        var document = XMLWriter("ListMultipartUploadsResult", vendor)
        document.element("Bucket", bucket)
        document.element("KeyMarker", text(keyMarker ?? ""))
        document.element("UploadIdMarker", uploadIDMarker ?? "")
        // OSS clients expect these elements in every page.
        if page.next != nil || vendor.profile.documents.namesNextUpload {
            document.element("NextKeyMarker", page.next.map { text($0.marker) } ?? "")
            document.element("NextUploadIdMarker", page.next?.cursor.id ?? "")
        }
        document.element("Prefix", text(prefix))
        document.element("Delimiter", ifPresent: delimiter.map { text($0) })
        if encodesURL { document.element("EncodingType", "url") }
        document.element("MaxUploads", maximum)
        document.element("IsTruncated", page.isTruncated)
        for upload in page.items {
            document.element("Upload") { node in
                node.element("Key", text(upload.key))
                node.element("UploadId", upload.uploadID)
                if vendor.profile.documents.listsOwnersOfUploads {
                    owner.write("Initiator", to: &node)
                    owner.write("Owner", to: &node)
                }
                node.element("StorageClass", vendor.profile.storageClass)
                node.element("Initiated", upload.createdAt)
                if let checksum = upload.checksum {
                    node.element("ChecksumAlgorithm", checksum.algorithm.s3Name)
                    node.element("ChecksumType", checksum.s3Type)
                }
            }
        }
        text.write(page.commonPrefixes, to: &document)
        return document.finished()
    }
}
