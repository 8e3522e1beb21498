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
        /// An empty list, or the error for one that the request names.
        case list(Element, named: ObjectErrorCode)
        /// No domains of its own; the list names the bucket and its owner.
        case domains

        static func pages(_ root: String) -> Answer {
            .list(Element(root, [Element("IsTruncated", "false")]), named: .noSuchConfiguration)
        }
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
    /// Whether a deletion succeeds; `OperationDecoder` refuses others, except of one in a list, which is not found.
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
        "abac": .init("BucketAbac", .document(Element("AbacStatus", [Element("Status", "Disabled")]))),
        "metadataConfiguration": .init("BucketMetadataConfiguration", .error(.noMetadataConfiguration)),
        "metadataTable": .init("BucketMetadataTableConfiguration", .error(.noMetadataConfiguration)),
        "analytics": .init("BucketAnalyticsConfiguration", .pages("ListBucketAnalyticsConfigurationResult")),
        "inventory": .init("BucketInventoryConfiguration", .pages("ListInventoryConfigurationsResult")),
        "metrics": .init("BucketMetricsConfiguration", .pages("ListMetricsConfigurationsResult")),
        "intelligent-tiering": .init(
            "BucketIntelligentTieringConfiguration",
            .pages("ListBucketIntelligentTieringConfigurationsOutput")
        ),
    ]

    /// "GetBucketPolicy" and the others, OSS documentation, and its list of error codes.
    ///
    /// Version 1 signatures cover most of these sub-resources; an answer that is always the same needs no protection.
    private static let aliyun: [String: AbsentConfiguration] = [
        "policy": .init("BucketPolicy", .error(.noSuchBucketPolicy), isDeletable: true),
        "policyStatus": .init(
            "BucketPolicyStatus",
            .document(Element("PolicyStatus", [Element("IsPublic", "false")]))
        ),
        "tagging": .init("BucketTagging", .document(Element("Tagging", [Element("TagSet")])), isDeletable: true),
        "website": .init("BucketWebsite", .error(.noSuchWebsiteConfiguration), isDeletable: true),
        "encryption": .init("BucketEncryption", .error(.noEncryptionConfiguration), isDeletable: true),
        "replication": .init("BucketReplication", .error(.noReplicationConfiguration)),
        "replicationLocation": .init("BucketReplicationLocation", .document(Element("ReplicationLocation"))),
        "replicationProgress": .init("BucketReplicationProgress", .error(.noSuchReplicationRule)),
        "worm": .init("BucketWorm", .error(.noObjectLockConfiguration)),
        "transferAcceleration": .init("BucketTransferAcceleration", .error(.noTransferAcceleration)),
        "publicAccessBlock": .init(
            "PublicAccessBlock",
            .document(Element("PublicAccessBlockConfiguration", [Element("BlockPublicAccess", "false")])),
            isDeletable: true
        ),
        "logging": .init("BucketLogging", .document(Element("BucketLoggingStatus")), isDeletable: true),
        "userDefinedLogFieldsConfig": .init(
            "UserDefinedLogFieldsConfig",
            .error(.noUserDefinedLogFields),
            isDeletable: true
        ),
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
        "inventory": .init("BucketInventory", .pages("ListInventoryConfigurationsResult")),
        "cname": .init("Cname", .domains),
        "style": .init("Style", .list(Element("StyleList"), named: .noSuchStyle)),
        "accessPoint": .init(
            "AccessPoints",
            .document(Element("ListAccessPointsResult", [Element("MaxKeys", "100"), Element("IsTruncated", "false")]))
        ),
        "redundancyTransition": .init(
            "BucketDataRedundancyTransition",
            .document(Element("ListBucketDataRedundancyTransition", [Element("IsTruncated", "false")]))
        ),
        "accessmonitor": .init(
            "BucketAccessMonitor",
            .document(Element("AccessMonitorConfiguration", [Element("Status", "Disabled")]))
        ),
        "bucketArchiveDirectRead": .init(
            "BucketArchiveDirectRead",
            .document(Element("ArchiveDirectReadConfiguration", [Element("Enabled", "false")]))
        ),
        "httpsConfig": .init(
            "BucketHttpsConfig",
            .document(Element("HttpsConfiguration", [Element("TLS", [Element("Enable", "false")])]))
        ),
        "resourceGroup": .init(
            "BucketResourceGroup",
            .document(Element("BucketResourceGroupConfiguration", [Element("ResourceGroupId", "rg-default-id")]))
        ),
        // No limits.
        "qos": .init("BucketStorageCapacity", .document(Element("BucketUserQos", [Element("StorageCapacity", "-1")]))),
        "qosInfo": .init(
            "BucketQosInfo",
            .document(
                Element(
                    "QoSConfiguration",
                    [
                        "TotalUploadBandwidth", "IntranetUploadBandwidth", "ExtranetUploadBandwidth",
                        "TotalDownloadBandwidth", "IntranetDownloadBandwidth", "ExtranetDownloadBandwidth", "TotalQps",
                        "IntranetQps", "ExtranetQps",
                    ].map { Element($0, "-1") }
                )
            ),
            isDeletable: true
        ),
    ]

    /// "GET Bucket policy" and the others, COS documentation, and the codes for which its SDK for Node.js looks.
    ///
    /// For origins and certificates the documentation has no code; the SDK's tests only want an error.
    private static let tencent: [String: AbsentConfiguration] = [
        "policy": .init("BucketPolicy", .error(.noSuchBucketPolicy), isDeletable: true),
        "tagging": .init("BucketTagging", .error(.noSuchTagSet), isDeletable: true),
        "website": .init("BucketWebsite", .error(.noSuchWebsiteConfiguration), isDeletable: true),
        "encryption": .init("BucketEncryption", .error(.noEncryptionConfiguration), isDeletable: true),
        "replication": .init("BucketReplication", .error(.noReplicationConfiguration), isDeletable: true),
        "referer": .init("BucketReferer", .error(.noSuchRefererConfiguration), isDeletable: true),
        "origin": .init("BucketOrigin", .error(.noSuchConfiguration), isDeletable: true),
        "object-lock": .init("ObjectLockConfiguration", .error(.noObjectLockConfiguration)),
        "logging": .init("BucketLogging", .document(Element("BucketLoggingStatus"))),
        "accelerate": .init("BucketAccelerate", .document(Element("AccelerateConfiguration"))),
        "domain": .init("BucketDomain", .document(Element("DomainConfiguration")), isDeletable: true),
        "domaincertificate": .init("BucketDomainCertificate", .error(.noSuchConfiguration), isDeletable: true),
        "intelligenttiering": .init("BucketIntelligentTiering", .document(Element("IntelligentTieringConfiguration"))),
        "intelligent-tiering": .init(
            "BucketIntelligentTieringConfiguration",
            .pages("ListBucketIntelligentTieringConfigurationsOutput")
        ),
        "inventory": .init("BucketInventory", .pages("ListInventoryConfigurationResult")),
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
    func document(of bucket: String, owner: ObjectOwner, for vendor: Vendor) throws(ObjectError) -> [UInt8] {
        switch answer {
        case .error(let code): throw ObjectError(code)
        case .document(let root): return Self.written(root, vendor)
        case .list(let root, let code):
            if isNamed { throw ObjectError(code) }
            return Self.written(root, vendor)
        case .domains:
            let parts = [Element("Bucket", bucket), Element("Owner", owner.id)]
            return Self.written(Element("ListCnameResult", parts), vendor)
        }
    }

    /// - Throws: The vendor's answer to the deletion of one that is not in a list.
    func delete() throws(ObjectError) {
        guard case .list(_, let code) = answer, isNamed else { return }
        throw ObjectError(code)
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
