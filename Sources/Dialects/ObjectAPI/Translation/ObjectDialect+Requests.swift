internal import HTTPWire
internal import Signing

/// Requests to OSS and COS in S3's words.
///
/// Operations, parameters and documents of the three are the same but for names; what is left are the header fields.
extension ObjectDialect {
    /// A head of OSS or COS whose fields are those of S3, for everything but the check of the signature.
    ///
    /// Fields of S3 are left out: no signature covers them.
    ///
    /// - Throws: `NotImplemented` for a field that promises what nobody here would keep; `InvalidArgument`.
    func effectiveHead(_ head: RequestHead) throws(S3Error) -> RequestHead {
        var fields = HTTPFields()
        for index in head.fields.entries.indices {
            let original = head.fields.name(at: index)
            let name = original.lowercased()
            let value = head.fields.value(at: index)
            if name.hasPrefix(fieldPrefix) {
                guard let (name, value) = try translated(String(name.dropFirst(fieldPrefix.count)), value),
                    let field = FieldName(name)
                else { continue }
                fields.append(field, value)
            } else if !name.hasPrefix(ObjectDialect.s3.fieldPrefix), let field = FieldName(original) {
                fields.append(field, Self.tagConditions.contains(name) ? Self.recorded(value) : value)
            }
        }
        var effective = head
        effective.fields = fields
        effective.target = withoutEmptyToken(head.target)
        return effective
    }

    private static let tagConditions: Set<String> = ["if-match", "if-none-match"]

    /// An entity tag as it is recorded: in lower case, and in the quotes that some clients leave out.
    private static func recorded(_ tag: String) -> String {
        let lowercased = tag.lowercased()
        return tag == "*" || tag.contains("\"") ? lowercased : "\"\(lowercased)\""
    }

    /// Clients of OSS send an empty one with the first page.
    private func withoutEmptyToken(_ target: RequestTarget) -> RequestTarget {
        guard let query = target.rawQuery, query.contains("continuation-token") else { return target }
        let items = query.split(separator: "&").filter { !["continuation-token", "continuation-token="].contains($0) }
        return RequestTarget(
            rawPath: target.rawPath,
            rawQuery: items.joined(separator: "&"),
            authority: target.authority,
            segments: target.segments
        )
    }

    /// - Parameters:
    ///   - name: Without the prefix of the vendor.
    ///   - value: As it came.
    /// - Returns: Name and value in S3's words; `nil` for what has no effect here.
    /// - Throws: `NotImplemented`, `InvalidArgument`.
    private func translated(_ name: String, _ value: String) throws(S3Error) -> (String, String)? {
        let prefix = ObjectDialect.s3.fieldPrefix
        if name.hasPrefix("meta-") { return (prefix + name, value) }
        switch name {
        case "copy-source": return (prefix + name, try copySource(value))
        case "copy-source-if-match", "copy-source-if-none-match": return (prefix + name, Self.recorded(value))
        case "copy-source-range", "copy-source-if-modified-since", "copy-source-if-unmodified-since", "tagging":
            return (prefix + name, value)
        case "metadata-directive", "tagging-directive":
            let directive = value.uppercased()
            return (prefix + name, directive == "REPLACED" ? "REPLACE" : directive)
        case "storage-class": return (prefix + name, value.uppercased())
        case "acl", "object-acl":
            return value == "default" ? nil : (prefix + "acl", value)
        case "forbid-overwrite":
            return value.lowercased() == "true" ? ("If-None-Match", "*") : nil
        // Of OSS it is heeded where the request is answered.
        case "callback", "callback-var":
            if self == .oss { return nil }
            throw S3Error(.notImplemented, "Callbacks are not offered here: leave \(fieldPrefix)\(name) out.")
        case "complete-all" where value.lowercased() == "yes":
            throw S3Error(.notImplemented, "Name the parts, and leave \(fieldPrefix)complete-all out.")
        case "symlink-target":
            throw S3Error(.notImplemented, "There are no symbolic links here.")
        default:
            return name.hasPrefix("server-side-") || name.hasPrefix("grant-") ? (prefix + name, value) : nil
        }
    }

    /// The source of a copy as `/bucket/key`; in COS the bucket is the first label of a host.
    private func copySource(_ value: String) throws(S3Error) -> String {
        guard self == .cos else { return value }
        let path = value.hasPrefix("/") ? value.dropFirst() : value[...]
        guard let slash = path.firstIndex(of: "/"), let bucket = path[..<slash].split(separator: ".").first else {
            throw .argument("x-cos-copy-source", value, "The source of a copy must be <bucket>.<host>/<key>.")
        }
        return "/\(bucket)\(path[slash...])"
    }

    /// Parameters that change what a request does and that nobody here would heed are refused.
    ///
    /// - Throws: `NotImplemented`.
    func checkParameters(of target: RequestTarget) throws(S3Error) {
        guard self != .s3 else { return }
        let names = try S3Parameters(target).names
        let refused = names.filter { name in
            switch self {
            case .s3: false
            case .oss:
                OSSSubresource.isSigned(name) && !Self.understood.contains(name) && !name.hasPrefix("response-")
            case .cos: name.hasPrefix("ci-") || name == "append"
            }
        }
        if let name = refused.min() {
            throw S3Error(
                .notImplemented,
                "Nothing here has ?\(name): leave the call out (docs/object.md lists what there is)."
            )
        }
    }

    /// Sub-resources of OSS that there are here, and those that are without effect.
    private static let understood: Set<String> = [
        "append", "callback", "callback-var", "continuation-token", "cors", "delete", "lifecycle", "location",
        "objectMeta", "partNumber",
        "position",
        "security-token", "sequential", "tagging", "uploadId", "uploads", "versionId", "x-oss-request-payer",
        "x-oss-traffic-limit",
    ]
}
