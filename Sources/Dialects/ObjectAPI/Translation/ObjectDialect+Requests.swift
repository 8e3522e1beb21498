internal import Bytes
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
                fields.append(field, Self.tagConditions.contains(name) ? recorded(value) : value)
            }
        }
        var effective = head
        effective.fields = fields
        effective.target = withoutEmptyToken(head.target)
        return effective
    }

    static let tagConditions: Set<String> = ["if-match", "if-none-match", "if-range"]

    /// A list of entity tags as they are recorded: each in the quotes that some clients leave out, and, but for clients of S3, who
    /// are told them as they are, in lower case.
    ///
    /// A list is `*`, or tags with commas between; a date of `If-Range` stays as it is.
    func recorded(_ list: String) -> String {
        // Those of objects have no commas, and a date has one behind the name of the day.
        guard list != "*", HTTPDate.parse(list) == nil else { return list }
        let tags = list.split(separator: ",").map { Substring($0).trimmingWhitespace() }
            .map { $0 == "*" || $0.contains("\"") ? String($0) : "\"\($0)\"" }
            .joined(separator: ", ")
        return self == .s3 ? tags : tags.lowercased()
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
        case "copy-source-if-match", "copy-source-if-none-match": return (prefix + name, recorded(value))
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
    ///
    /// The Go SDK of OSS escapes it as forms are, with `+` for a space; all of its SDKs escape `+` itself.
    private func copySource(_ value: String) throws(S3Error) -> String {
        guard self == .cos else { return value.replacing("+", with: "%20") }
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
            // Signatures of version 1 do not cover ?attributes, which OSS does not know.
            case .oss:
                OSSSubresource.isSigned(name) && !Self.understood.contains(name) && !name.hasPrefix("response-")
                    || name == "attributes"
            case .cos: name.hasPrefix("ci-") || name == "append" || name == "attributes"
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
        "objectMeta", "partNumber", "position", "security-token", "sequential", "tagging", "uploadId", "uploads",
        "versionId", "versioning",
        "x-oss-request-payer", "x-oss-traffic-limit",
    ]
}
