internal import Bytes
internal import HTTPWire
internal import Signing

extension Vendor {
    /// Refuses parameters that would change the effect of a request but are not supported.
    ///
    /// - Throws: `NotImplemented`.
    func checkParameters(of target: RequestTarget) throws(ObjectError) {
        guard self != .aws else { return }
        let parameters = try ObjectParameters(target)
        var refused = parameters.names.filter { name in
            switch self {
            case .aws: false
            // Version 1 signatures do not cover `?attributes`, which OSS does not know.
            case .aliyun:
                OSSSubresource.isSigned(name) && !Self.understood.contains(name) && !Self.isRead(name)
                    && !name.hasPrefix("response-") || name == "attributes"
            case .tencent: name.hasPrefix("ci-") || name == "attributes"
            }
        }
        if self == .tencent { refused.formUnion(parameters.processing) }
        if let name = refused.min() {
            throw ObjectError(
                .notImplemented,
                "?\(name) is not supported: leave the call out (docs/object.md lists the supported ones)."
            )
        }
    }

    /// Refuses header fields without the vendor's prefix that ask for something beside the object.
    ///
    /// COS makes pictures of the one that is uploaded (`Pic-Operations`), and answers with a document ("Persistent image
    /// processing", COS documentation).
    ///
    /// - Parameter name: In lower case.
    /// - Throws: `NotImplemented`.
    func checkUnprefixed(_ name: String) throws(ObjectError) {
        guard self == .tencent, name == "pic-operations" || name.hasPrefix("x-ci-") else { return }
        throw ObjectError(
            .notImplemented,
            "The processing of images is not supported: leave the header \(name) out.",
            details: [ObjectError.Detail("Header", name)]
        )
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

extension ObjectParameters {
    /// Commands of COS to process the image that is read, such as `imageMogr2/thumbnail/!50p` ("Basic image processing",
    /// COS documentation).
    ///
    /// They are names with slashes, or the bare name of a command. A text in one may have a `=`, which ends the name.
    fileprivate var processing: Set<String> {
        names.filter { $0.utf8.contains(UInt8(ascii: "/")) }.union(bareNames.intersection(Self.commands))
    }

    private static let commands: Set<String> = [
        "exif", "imageAve", "imageInfo", "imageMogr2", "imageSlim", "imageView2", "watermark",
    ]
}
