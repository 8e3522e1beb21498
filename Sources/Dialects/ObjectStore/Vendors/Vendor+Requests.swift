internal import Bytes
internal import HTTPWire
internal import Signing

extension Vendor {
    /// Refuses parameters that would change the effect of a request but are not supported.
    ///
    /// - Throws: `NotImplemented`.
    func checkParameters(of target: RequestTarget) throws(ObjectError) {
        guard self != .aws else { return }
        let names = try ObjectParameters(target).names
        let refused = names.filter { name in
            switch self {
            case .aws: false
            // Version 1 signatures do not cover `?attributes`, which OSS does not know.
            case .aliyun:
                OSSSubresource.isSigned(name) && !Self.understood.contains(name) && !Self.isRead(name)
                    && !name.hasPrefix("response-") || name == "attributes"
            case .tencent: name.hasPrefix("ci-") || name == "attributes"
            }
        }
        if let name = refused.min() {
            throw ObjectError(
                .notImplemented,
                "?\(name) is not supported: leave the call out (docs/object.md lists the supported ones)."
            )
        }
    }

    /// Sub-resources of OSS that are supported or have no effect.
    private static let understood: Set<String> = [
        "acl", "append", "bucketInfo", "callback", "callback-var", "continuation-token", "cors", "delete", "lifecycle",
        "location", "objectMeta", "partNumber", "position", "security-token", "sequential", "tagging", "uploadId",
        "uploads", "versionId", "versioning", "versions",
        "x-oss-request-payer", "x-oss-traffic-limit",
    ]

    /// Whether a parameter of OSS reads what a bucket has or has not; `OperationDecoder` refuses it elsewhere.
    private static func isRead(_ name: String) -> Bool {
        AbsentConfiguration(name, of: .aliyun) != nil || ["stat", "inventoryId", "styleName"].contains(name)
    }

    /// Whether a parameter is one of the vendor's own that is supported or has no effect.
    func understands(parameter name: String) -> Bool {
        if name.lowercasedASCII().hasPrefix(fieldPrefix) { return true }
        switch self {
        case .aws: return false
        case .aliyun: return Self.understood.contains(name)
        // Of the signature: it names no parameters, for example.
        case .tencent: return name.hasPrefix("q-")
        }
    }
}
