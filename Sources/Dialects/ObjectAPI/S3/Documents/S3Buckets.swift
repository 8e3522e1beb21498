package import Foundation
internal import XMLText

/// Documents about buckets.
package enum S3Buckets {
    /// What a request that makes a bucket says of its place (`CreateBucketConfiguration`).
    ///
    /// - Parameter bytes: The document; may be empty.
    /// - Returns: The location constraint; `nil` if there is none.
    /// - Throws: `MalformedXML`; `NotImplemented` for anything else that it asks for.
    package static func location(document bytes: [UInt8]) throws(S3Error) -> String? {
        guard !bytes.isEmpty else { return nil }
        let root = try S3Documents.root(bytes, "CreateBucketConfiguration", limit: S3Documents.Limit.creation)
        if let other = root.children.first(where: { $0.name != "LocationConstraint" }) {
            guard ["Location", "Bucket", "Tags"].contains(other.name) else { throw S3Error(.malformedXML) }
            // A bucket that is made otherwise than asked for would be found out too late.
            throw S3Error(.notImplemented, "Buckets here have no \(other.name): leave the element out.")
        }
        return root.trimmed("LocationConstraint").flatMap { $0.isEmpty ? nil : $0 }
    }

    /// A document `ListAllMyBucketsResult`.
    ///
    /// - Parameters:
    ///   - buckets: All that are told of.
    ///   - owner: Of all.
    ///   - region: Where they are; for S3 nobody asks.
    ///   - host: Where they are reached.
    ///   - dialect: Whose client reads it.
    /// - Returns: XML.
    package static func list(
        _ buckets: [(name: String, createdAt: Date)],
        owner: S3Owner,
        region: String = "",
        host: String = "",
        for dialect: ObjectDialect = .s3
    ) -> [UInt8] {
        var document = XMLWriter("ListAllMyBucketsResult", dialect)
        owner.write("Owner", to: &document)
        document.element("Buckets") { list in
            for bucket in buckets {
                list.element("Bucket") { node in
                    node.element("Name", bucket.name)
                    node.element("CreationDate", bucket.createdAt)
                    if dialect != .s3 { node.element("Location", region) }
                    guard dialect == .oss else { return }
                    node.element("ExtranetEndpoint", host)
                    node.element("IntranetEndpoint", host)
                    node.element("StorageClass", dialect.storageClass)
                }
            }
        }
        return document.finished()
    }

    /// A document `LocationConstraint`, which is empty for the region `us-east-1` of S3.
    package static func location(_ region: String, for dialect: ObjectDialect = .s3) -> [UInt8] {
        var document = XMLWriter("LocationConstraint", dialect)
        if dialect != .s3 || region != "us-east-1" { document.text(region) }
        return document.finished()
    }
}

extension S3Buckets {
    /// A document `VersioningConfiguration`, which is empty for a bucket that never had versions ("GetBucketVersioning").
    static func versioning(for dialect: ObjectDialect) -> [UInt8] {
        XMLWriter("VersioningConfiguration", dialect).finished()
    }
}

/// Whom buckets, objects and uploads belong to, as listings tell it.
package struct S3Owner: Sendable, Equatable {
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
