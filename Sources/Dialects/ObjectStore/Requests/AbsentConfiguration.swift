internal import Signing

/// A configuration that no bucket has here, and what the vendor answers to those who read it.
///
/// SDKs, consoles and Terraform read all configurations of a bucket, and an error that they do not expect ends them.
/// Setting one is refused, except where it is deleted: there is nothing to delete.
package struct AbsentConfiguration: Sendable, Equatable {
    /// What the vendor answers for a bucket without it.
    enum Answer: Sendable, Equatable {
        case error(ObjectErrorCode)
        case document(Element)
        /// An empty list with this root; `NoSuchConfiguration` for one that the request names.
        case list(String)
    }

    /// An element of a document.
    struct Element: Sendable, Equatable {
        let name: String
        var text: String?
        var children: [Element] = []

        init(_ name: String, _ text: String? = nil) {
            self.name = name
            self.text = text
        }

        init(_ name: String, _ children: [Element]) {
            self.name = name
            self.children = children
        }
    }

    /// The name of the operation, without the verb.
    let name: String
    let answer: Answer
    /// Whether a deletion succeeds.
    let isDeletable: Bool
    /// Whether the request names one of a list.
    var isNamed = false

    private init(_ name: String, _ answer: Answer, isDeletable: Bool = false) {
        self.name = name
        self.answer = answer
        self.isDeletable = isDeletable
    }

    /// `nil` for a sub-resource that is refused, or that buckets have.
    ///
    /// - Parameters:
    ///   - resource: A sub-resource.
    ///   - vendor: The vendor of the request.
    init?(_ resource: String, of vendor: Vendor) {
        guard let found = Self.tables[vendor][resource] else { return nil }
        self = found
    }

    private static let tables = PerVendor(aws: aws, aliyun: aliyun, tencent: tencent)

    /// "GetBucketPolicy" and the others, Amazon S3 API Reference, and its list of error codes.
    private static let aws: [String: AbsentConfiguration] = [
        "policy": .init("BucketPolicy", .error(.noSuchBucketPolicy), isDeletable: true),
        "policyStatus": .init("BucketPolicyStatus", .error(.noSuchBucketPolicy)),
        "tagging": .init("BucketTagging", .error(.noSuchTagSet), isDeletable: true),
        "website": .init("BucketWebsite", .error(.noSuchWebsiteConfiguration), isDeletable: true),
        "encryption": .init("BucketEncryption", .error(.noEncryptionConfiguration), isDeletable: true),
        "replication": .init("BucketReplication", .error(.noReplicationConfiguration), isDeletable: true),
        "publicAccessBlock": .init("PublicAccessBlock", .error(.noSuchPublicAccessBlock), isDeletable: true),
        "object-lock": .init("ObjectLockConfiguration", .error(.noObjectLockConfiguration)),
        // What Amazon gives each new bucket: access control lists are off.
        "ownershipControls": .init(
            "BucketOwnershipControls",
            .document(
                Element("OwnershipControls", [Element("Rule", [Element("ObjectOwnership", "BucketOwnerEnforced")])])
            )
        ),
        "logging": .init("BucketLogging", .document(Element("BucketLoggingStatus"))),
        "notification": .init("BucketNotificationConfiguration", .document(Element("NotificationConfiguration"))),
        "accelerate": .init("BucketAccelerateConfiguration", .document(Element("AccelerateConfiguration"))),
        "requestPayment": requestPayment,
        "analytics": .init("BucketAnalyticsConfiguration", .list("ListBucketAnalyticsConfigurationResult")),
        "inventory": .init("BucketInventoryConfiguration", .list("ListInventoryConfigurationsResult")),
        "metrics": .init("BucketMetricsConfiguration", .list("ListMetricsConfigurationsResult")),
        "intelligent-tiering": .init(
            "BucketIntelligentTieringConfiguration",
            .list("ListBucketIntelligentTieringConfigurationsOutput")
        ),
    ]

    /// "GetBucketPolicy" and the others, OSS documentation, and its list of error codes.
    ///
    /// Version 1 signatures cover all of these sub-resources.
    private static let aliyun: [String: AbsentConfiguration] = [
        "policy": .init("BucketPolicy", .error(.noSuchBucketPolicy), isDeletable: true),
        "tagging": .init("BucketTagging", .document(Element("Tagging", [Element("TagSet")])), isDeletable: true),
        "website": .init("BucketWebsite", .error(.noSuchWebsiteConfiguration), isDeletable: true),
        "encryption": .init("BucketEncryption", .error(.noEncryptionConfiguration), isDeletable: true),
        "replication": .init("BucketReplication", .error(.noReplicationConfiguration)),
        "worm": .init("BucketWorm", .error(.noObjectLockConfiguration)),
        "transferAcceleration": .init("BucketTransferAcceleration", .error(.noTransferAcceleration)),
        "publicAccessBlock": .init(
            "PublicAccessBlock",
            .document(Element("PublicAccessBlockConfiguration", [Element("BlockPublicAccess", "false")]))
        ),
        "logging": .init("BucketLogging", .document(Element("BucketLoggingStatus")), isDeletable: true),
        "referer": .init(
            "BucketReferer",
            .document(
                Element(
                    "RefererConfiguration",
                    [
                        Element("AllowEmptyReferer", "true"), Element("AllowTruncateQueryString", "true"),
                        Element("RefererList"),
                    ]
                )
            )
        ),
        "requestPayment": requestPayment,
        "inventory": .init("BucketInventory", .list("ListInventoryConfigurationsResult")),
    ]

    /// "GET Bucket policy" and the others, COS documentation, and the codes for which its SDK for Node.js looks.
    private static let tencent: [String: AbsentConfiguration] = [
        "policy": .init("BucketPolicy", .error(.noSuchBucketPolicy), isDeletable: true),
        "tagging": .init("BucketTagging", .error(.noSuchTagSet), isDeletable: true),
        "website": .init("BucketWebsite", .error(.noSuchWebsiteConfiguration), isDeletable: true),
        "encryption": .init("BucketEncryption", .error(.noEncryptionConfiguration), isDeletable: true),
        "replication": .init("BucketReplication", .error(.noReplicationConfiguration), isDeletable: true),
        "referer": .init("BucketReferer", .error(.noSuchRefererConfiguration)),
        "object-lock": .init("ObjectLockConfiguration", .error(.noObjectLockConfiguration)),
        "logging": .init("BucketLogging", .document(Element("BucketLoggingStatus"))),
        "accelerate": .init("BucketAccelerate", .document(Element("AccelerateConfiguration"))),
        "domain": .init("BucketDomain", .document(Element("DomainConfiguration"))),
        "intelligenttiering": .init("BucketIntelligentTiering", .document(Element("IntelligentTieringConfiguration"))),
        "inventory": .init("BucketInventory", .list("ListInventoryConfigurationResult")),
    ]

    private static let requestPayment = AbsentConfiguration(
        "BucketRequestPayment",
        .document(Element("RequestPaymentConfiguration", [Element("Payer", "BucketOwner")]))
    )
}

extension AbsentConfiguration {
    /// The document for a bucket without it.
    ///
    /// - Throws: What the vendor answers instead of a document.
    func document(for vendor: Vendor) throws(ObjectError) -> [UInt8] {
        switch answer {
        case .error(let code): throw ObjectError(code)
        case .document(let root): return Self.written(root, vendor)
        case .list(let root):
            if isNamed { throw ObjectError(.noSuchConfiguration) }
            return Self.written(Element(root, [Element("IsTruncated", "false")]), vendor)
        }
    }

    private static func written(_ root: Element, _ vendor: Vendor) -> [UInt8] {
        var document = XMLWriter(root.name, vendor)
        for child in root.children { write(child, to: &document) }
        return document.finished()
    }

    private static func write(_ element: Element, to document: inout XMLWriter) {
        document.element(element.name) { node in
            if let text = element.text { node.text(text) }
            for child in element.children { write(child, to: &node) }
        }
    }
}
