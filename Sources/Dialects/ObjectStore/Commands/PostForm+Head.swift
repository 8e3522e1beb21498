internal import Bytes
internal import HTTPWire
internal import ObjectGrants
internal import Signing

extension PostForm {
    /// Converts the fields with an effect to the header fields of an ordinary request.
    ///
    /// The policy has allowed the fields as they were sent. So a field that a header cannot have is refused: without it, or
    /// with another value, the object would not be what the policy allows.
    ///
    ///     Content-Type: image/png      Content-Type: image/png
    ///     acl: private                 x-amz-acl: private
    ///     If-None-Match: *             If-None-Match: *, as a field of the form or of the request
    ///     x-oss-tagging: a=1           InvalidArgument in a form for S3, as in any place where no tags of the form are
    ///     comment: two CR LF lines     left out: it has no effect
    ///     Content-Type: image/ 0x01    InvalidArgument
    ///
    /// - Parameters:
    ///   - request: The head of the request with the form.
    ///   - fileType: The media type of the file part. It is used if the form has no field for it and the policy allows it.
    ///   - policy: The policy of the form, which it satisfies.
    /// - Returns: The head of a request that describes the object.
    /// - Throws: `InvalidArgument`.
    func head(
        of request: RequestHead,
        fileType: String?,
        _ policy: PostPolicy
    ) throws(ObjectError) -> RequestHead {
        var described = HTTPFields()
        for field in fields {
            if let advice = misplaced(field.name.lowercasedASCII()) { throw .argument(field.name, nil, advice) }
            let alias = aliases.first { $0.field == field.name.lowercasedASCII() }?.header
            guard alias != nil || hasEffect(field.name.lowercasedASCII()) else { continue }
            guard let name = FieldName(alias ?? field.name) else {
                throw .argument(field.name, nil, "The form field '\(field.name)' does not have the name of a header.")
            }
            guard field.value.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) else {
                let message = "The form field '\(field.name)' has a control character, such as a tab or a line break."
                throw .argument(field.name, nil, message)
            }
            // White space around a value is not part of it (RFC 9110 §5.5).
            described.append(name, field.value.trimmingWhitespace())
        }
        if vendor == .aliyun, let type = described["x-oss-content-type"] { described["Content-Type"] = type }
        if !described.contains("Content-Type"), let fileType, policy.allows(contentType: fileType) {
            described["Content-Type"] = fileType
        }
        // A condition holds wherever the client states it, as a form field or as a header field of the request.
        for name in conditions { for value in request.fields.all(name) { described.append(name, value) } }
        for index in request.fields.entries.indices {
            let name = request.fields.name(at: index)
            if let advice = misplacedInHead(name.lowercasedASCII()) { throw .argument(name, nil, advice) }
        }
        var head = request
        head.fields = described
        // No part of the policy is about the query. Else it could add fields, as that of a presigned URL does.
        let target = request.target
        head.target = RequestTarget(
            rawPath: target.rawPath,
            rawQuery: nil,
            authority: target.authority,
            segments: target.segments
        )
        return head
    }

    /// Fields whose header has another name ("POST Object" of the Amazon S3 API Reference and of the COS documentation).
    ///
    /// OSS has only the name of the header ("PostObject", OSS documentation).
    private var aliases: [(field: String, header: String)] {
        vendor == .aliyun ? [] : [("acl", vendor.profile.fields.prefix + "acl")]
    }

    /// Where the form has the tags, or the condition that nothing is replaced, for a field that other forms or other requests have
    /// them in; `nil` for each other field.
    ///
    /// The vendors leave such a field out: the object is without the tags by which a rule deletes it or a right is given, or it
    /// replaces another one.
    private func misplaced(_ name: String) -> String? {
        switch (vendor, name) {
        case (.aws, "x-amz-tagging"), (.aliyun, "tagging"): tagsAdvice
        case (.tencent, "tagging") where self["x-cos-tagging"] != nil: tagsAdvice
        default: foreign(name)
        }
    }

    /// The same for a header field of the request: none has the tags of a form.
    private func misplacedInHead(_ name: String) -> String? {
        name == vendor.fieldPrefix + "tagging" ? tagsAdvice : foreign(name)
    }

    /// The same for a field of another vendor's.
    private func foreign(_ name: String) -> String? {
        let others = Vendor.allCases.filter { $0 != vendor }.map(\.fieldPrefix)
        if others.contains(where: { name == $0 + "tagging" }) { return tagsAdvice }
        guard others.contains(where: { name == $0 + Self.forbidOverwrite }) else { return nil }
        let own = vendor == .aws ? "If-None-Match" : vendor.fieldPrefix + Self.forbidOverwrite
        return "The condition that nothing is replaced is in the field '\(own)' of a form."
    }

    private var tagsAdvice: String {
        "The tags of a form are in its field '\(vendor == .aws ? "tagging" : vendor.fieldPrefix + "tagging")'."
    }

    /// Whether a field, with its name in lower case, describes the object as the header field of the same name does.
    private func hasEffect(_ name: String) -> Bool {
        name.hasPrefix(vendor.profile.fields.prefix) || name.hasPrefix("content-")
            || ["cache-control", "expires"].contains(name) || FieldName(name).map(conditions.contains) ?? false
    }

    private static let forbidOverwrite = "forbid-overwrite"

    private var conditions: [FieldName] {
        let own = vendor == .aws ? nil : FieldName(vendor.fieldPrefix + Self.forbidOverwrite)
        return ["If-Match", "If-None-Match"] + (own.map { [$0] } ?? [])
    }
}
