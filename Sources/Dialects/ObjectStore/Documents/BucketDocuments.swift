internal import Bytes
package import Foundation
package import Signing
internal import UploadModel
internal import XMLText

/// Documents about buckets.
package enum BucketDocuments {
    /// The location in a request to create a bucket (`CreateBucketConfiguration`).
    ///
    /// - Parameter bytes: The document; may be empty.
    /// - Returns: The location constraint, or `nil`.
    /// - Throws: `MalformedXML`; `NotImplemented` for any other requested property.
    package static func location(document bytes: [UInt8]) throws(ObjectError) -> String? {
        guard !bytes.isEmpty else { return nil }
        let root = try RequestDocuments.root(
            bytes,
            "CreateBucketConfiguration",
            limit: RequestDocuments.Limit.creation,
            nesting: ["Location", "Bucket", "Tags", "Tag"],
            repeating: ["Tag"]
        )
        for other in root.children where other.name != "LocationConstraint" {
            // OSS's SDK for Go always names the class, which no bucket differs in.
            if let only = Self.only[other.name], root.trimmed(other.name.text)?.uppercasedASCII() == only { continue }
            guard Self.properties.contains(other.name) else { throw ObjectError(.malformedXML) }
            // Ignoring a property would leave a bucket that differs from the request, which clients would notice too
            // late.
            throw ObjectError(.notImplemented, "Buckets do not support \(other.name): leave the element out.")
        }
        return root.trimmed("LocationConstraint").flatMap { $0.isEmpty ? nil : $0 }
    }

    /// What each bucket has, as OSS and COS name it.
    private static let only: [ExactText: String] = [
        "StorageClass": "STANDARD", "DataRedundancyType": "LRS", "BucketAZConfig": "OAZ",
    ]
    private static let properties: Set<ExactText> = [
        "Location", "Bucket", "Tags", "StorageClass", "DataRedundancyType", "BucketAZConfig", "BucketArchConfig",
    ]

    /// A document `ListAllMyBucketsResult`.
    ///
    /// - Parameters:
    ///   - buckets: The buckets to list.
    ///   - listing: What the request asks for.
    ///   - isTruncated: Whether others follow.
    ///   - owner: The owner of all of them.
    ///   - region: Their region; not written for S3, unless the request limits the list ("ListBuckets", Amazon S3 API
    ///     Reference).
    ///   - host: The host where they are reached.
    ///   - vendor: The vendor whose client reads it.
    /// - Returns: XML.
    package static func list(
        _ buckets: [(name: String, createdAt: Date)],
        _ listing: BucketListing = BucketListing(),
        isTruncated: Bool = false,
        owner: ObjectOwner,
        region: String = "",
        host: String = "",
        for vendor: Vendor = .aws
    ) -> [UInt8] {
        var document = XMLWriter("ListAllMyBucketsResult", vendor)
        owner.write("Owner", to: &document)
        document.element("Buckets") { list in
            for bucket in buckets {
                list.element("Bucket") { node in
                    node.element("Name", bucket.name)
                    node.element("CreationDate", bucket.createdAt)
                    if vendor == .aws, listing.isLimited { node.element("BucketRegion", region) }
                    if vendor.profile.documents.namesLocations {
                        node.element("Location", named(region, for: vendor))
                    }
                    guard vendor.profile.documents.namesEndpoints else { return }
                    node.element("ExtranetEndpoint", host)
                    node.element("IntranetEndpoint", host)
                    node.element("StorageClass", vendor.profile.storageClass)
                }
            }
        }
        if vendor == .aws {
            let last = isTruncated ? buckets.last?.name : nil
            document.element("ContinuationToken", ifPresent: last.map { ListingPosition.key($0).token })
            document.element("Prefix", ifPresent: listing.prefix)
        } else if isTruncated {
            // Only of a page that is not the last ("ListBuckets", OSS documentation).
            document.element("Prefix", listing.prefix ?? "")
            document.element("Marker", listing.marker ?? "")
            document.element("MaxKeys", ifPresent: listing.maximum.map { String($0) })
            document.element("IsTruncated", true)
            document.element("NextMarker", ifPresent: buckets.last?.name)
        }
        return document.finished()
    }

    /// A document `LocationConstraint`; empty for the region `us-east-1` of S3.
    package static func location(_ region: String, for vendor: Vendor = .aws) -> [UInt8] {
        var document = XMLWriter("LocationConstraint", vendor)
        if region != vendor.profile.documents.unnamedRegion { document.text(named(region, for: vendor)) }
        return document.finished()
    }

    /// The name of a region as a location: with a prefix at OSS ("GetBucketLocation", OSS documentation).
    package static func named(_ region: String, for vendor: Vendor) -> String {
        vendor == .aliyun && !region.hasPrefix("oss-") ? "oss-" + region : region
    }
}

extension BucketDocuments {
    /// A document `VersioningConfiguration`; empty for a bucket that never had versioning ("GetBucketVersioning").
    static func versioning(for vendor: Vendor) -> [UInt8] {
        XMLWriter("VersioningConfiguration", vendor).finished()
    }

    /// A document `BucketInfo` ("GetBucketInfo", OSS documentation).
    static func info(name: String, createdAt: Date, owner: ObjectOwner, region: String, host: String) -> [UInt8] {
        var document = XMLWriter("BucketInfo", .aliyun)
        document.element("Bucket") { bucket in
            bucket.element("Name", name)
            bucket.element("CreationDate", createdAt)
            bucket.element("Location", named(region, for: .aliyun))
            bucket.element("ExtranetEndpoint", host)
            bucket.element("IntranetEndpoint", host)
            bucket.element("StorageClass", Vendor.aliyun.profile.storageClass)
            bucket.element("DataRedundancyType", "LRS")
            owner.write("Owner", to: &bucket)
            bucket.element("AccessControlList") { $0.element("Grant", "private") }
        }
        return document.finished()
    }
}

/// What is stored in a bucket.
struct BucketStat: Sendable, Equatable {
    var objects = 0
    var bytes: Int64 = 0
    /// Multipart uploads in progress.
    var uploads = 0
    var countedAt = Date(timeIntervalSince1970: 0)
}

extension BucketDocuments {
    /// A document `BucketStat` ("GetBucketStat", OSS documentation): all objects have the standard class.
    static func stat(_ stat: BucketStat) -> [UInt8] {
        var document = XMLWriter("BucketStat", .aliyun)
        document.element("Storage", stat.bytes)
        document.element("ObjectCount", stat.objects)
        document.element("MultipartUploadCount", stat.uploads)
        document.element("LiveChannelCount", 0)
        document.element("LastModifiedTime", stat.countedAt.unixSeconds)
        document.element("StandardStorage", stat.bytes)
        document.element("StandardObjectCount", stat.objects)
        for storageClass in ["InfrequentAccess", "Archive", "ColdArchive", "DeepColdArchive"] {
            for suffix in ["Storage", "RealStorage", "ObjectCount"] {
                document.element(storageClass + suffix, 0)
            }
        }
        return document.finished()
    }
}

/// The owner of buckets, objects and uploads, as listings report it.
package struct ObjectOwner: Sendable, Equatable {
    package let id: String
    package let name: String

    package init(id: String, name: String) {
        self.id = id
        self.name = name
    }

    func write(_ element: String, to document: inout XMLWriter) {
        document.element(element) { owner in
            owner.element("ID", id)
            owner.element("DisplayName", name)
        }
    }
}
