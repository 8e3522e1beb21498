/// The resource of a request to OSS; it is signed as `/bucket/key`, wherever the client has put the bucket.
package struct OSSResource: Sendable, Equatable {
    /// `nil` for requests to the service itself, such as a list of buckets.
    package let bucket: String?
    /// Decoded, without a leading slash; empty for the bucket itself.
    package let key: String

    package init(bucket: String?, key: String = "") {
        self.bucket = bucket
        self.key = key
    }

    /// In the form of version 1.
    var text: String { bucket.map { "/\($0)/\(key)" } ?? "/" }

    /// In the form of version 4: everything except `/` and the unreserved characters of RFC 3986 §2.3 is escaped.
    var escapedText: String { SigningRequest.path(of: text) }
}

/// Parameters that OSS signs in version 1 because they change the meaning of a request ("Include signatures in the
/// Authorization header", OSS documentation, and the lists of its SDKs).
package enum OSSSubresource {
    package static func isSigned(_ name: String) -> Bool {
        names.contains(name) || name.hasPrefix("x-oss-ac-")
    }

    private static let names: Set<String> = [
        "accessPoint", "accessPointPolicy", "acl", "append", "asyncFetch", "bucketArchiveDirectRead", "bucketInfo",
        "callback", "callback-var", "cloudboxes", "cname", "comp", "continuation-token", "cors", "delete",
        "encryption", "endTime", "group", "httpsConfig", "img", "inventory", "inventoryId", "lifecycle", "link",
        "live", "location", "logging", "metaQuery", "objectInfo", "objectMeta", "partNumber", "policy", "position",
        "publicAccessBlock", "qos", "qosInfo", "qosRequester", "redundancyTransition", "referer", "regionList",
        "replication", "replicationLocation", "replicationProgress", "requestPayment", "requesterQosInfo",
        "resourceGroup", "resourcePool", "resourcePoolBuckets", "resourcePoolInfo", "response-cache-control",
        "response-content-disposition", "response-content-encoding", "response-content-language",
        "response-content-type", "response-expires", "restore", "security-token", "sequential", "startTime", "stat",
        "status", "style", "styleName", "symlink", "tagging", "transferAcceleration", "uploadId", "uploads",
        "versionId", "versioning", "versions", "vod", "website", "worm", "wormExtend", "wormId",
        "x-oss-access-point-name", "x-oss-async-process", "x-oss-process", "x-oss-redundancy-transition-taskid",
        "x-oss-request-payer", "x-oss-target-redundancy-type", "x-oss-traffic-limit",
        "x-oss-write-get-object-response",
    ]
}
