internal import Bytes
package import HTTPWire
package import Signing
internal import UploadModel

/// The head of a request, or the fields of a form, with vendor-specific header fields under common names.
///
/// Its fields were checked against the vendor's `FieldTable`.
package struct RequestReader: Sendable {
    package let vendor: Vendor
    let method: HTTPMethod
    let target: RequestTarget
    /// Header fields that are not vendor-specific, such as `Range`, unchanged.
    let standard: HTTPFields
    /// By name without the vendor's prefix, in lower case.
    private var own: [(name: String, value: String)] = []

    /// - Throws: The error of the first refused field.
    package init(_ head: RequestHead, _ vendor: Vendor) throws(ObjectError) {
        self.vendor = vendor
        method = head.method
        target = head.target
        standard = head.fields
        let table = vendor.profile.fields
        for index in standard.entries.indices {
            let name = standard.name(at: index).lowercasedASCII()
            guard name.hasPrefix(table.prefix) else {
                try vendor.checkUnprefixed(name)
                continue
            }
            try add(name, standard.value(at: index), table)
        }
        if vendor == .aws { try addHoisted(table) }
    }

    private mutating func add(_ name: String, _ value: String, _ table: FieldTable) throws(ObjectError) {
        try table.check(name, value)
        own.append((String(name.dropFirst(table.prefix.count)), value))
    }

    /// Adds header fields that a presigned URL carries in its query.
    ///
    /// Some SDKs move fields that begin with `x-amz-` there.
    ///
    /// Fields that describe the content are excluded: since 3.729 SDKs for JavaScript put the CRC-32 of zero bytes into
    /// the URL of an upload whose content they do not know yet, and Amazon ignores it (localstack issue 12169).
    private mutating func addHoisted(_ table: FieldTable) throws(ObjectError) {
        guard let query = try? target.queryItems(), query.first("X-Amz-Signature") != nil else { return }
        for item in query.items {
            let name = item.name.lowercasedASCII()
            guard name.hasPrefix(table.prefix), !Self.unhoisted.contains(name),
                ObjectChecksum.Algorithm.allCases.allSatisfy({ $0.s3Field.spelling != name }),
                let field = FieldName(item.name), !standard.contains(field)
            else { continue }
            try add(name, item.value, table)
        }
    }

    private static let unhoisted: Set<String> = [
        "x-amz-algorithm", "x-amz-content-sha256", "x-amz-credential", "x-amz-date", "x-amz-decoded-content-length",
        "x-amz-expires", "x-amz-sdk-checksum-algorithm", "x-amz-security-token", "x-amz-signature",
        "x-amz-signedheaders", "x-amz-trailer",
    ]

    /// The value of a vendor-specific field; `nil` if it is missing.
    ///
    /// Repeated fields form one list (RFC 9110 §5.3).
    subscript(name: String) -> String? {
        var joined: String?
        for field in own where field.name.isExactly(name) {
            joined = joined.map { $0 + ", " + field.value } ?? field.value
        }
        return joined
    }

    /// The fields whose names have this prefix, by the rest of the name, in order of appearance.
    func all(_ prefix: String) -> [(name: Substring, value: String)] {
        own.filter { $0.name.hasPrefix(prefix) }.map { ($0.name.dropFirst(prefix.count), $0.value) }
    }

    // MARK: Conditions

    /// A list of entity tags, `*` or a date, in the form of recorded tags.
    func tags(_ name: FieldName) -> String? { standard[name].map { recorded($0) } }

    /// A list of entity tags in recorded form: each one quoted, although some clients omit the quotes, and in lower
    /// case except for clients that receive tags unchanged.
    ///
    /// A list is `*`, or comma-separated tags; a date in `If-Range` stays unchanged.
    func recorded(_ list: String) -> String {
        // Entity tags of objects contain no commas; a date has one after the day name.
        guard list != "*", HTTPDate.parse(list) == nil else { return list }
        let tags = list.split(separator: ",").map { Substring($0).trimmingWhitespace() }
            .map { $0 == "*" || $0.contains("\"") ? String($0) : "\"\($0)\"" }
            .joined(separator: ", ")
        return vendor.profile.hasCase ? tags : tags.lowercasedASCII()
    }

    /// Whether an existing object must not be replaced, in the form that OSS and COS use; of several fields, one is enough.
    var forbidsOverwrite: Bool {
        own.contains { $0.name.isExactly("forbid-overwrite") && $0.value.lowercasedASCII() == "true" }
    }

    /// `If-None-Match`, or the vendor's equivalent.
    private var noneMatch: String? {
        let tags = tags("If-None-Match")
        guard forbidsOverwrite else { return tags }
        return tags.map { $0 + ", *" } ?? "*"
    }

    /// The condition on the existing object for a request that replaces it.
    ///
    /// - Throws: `NotImplemented`.
    func writeCondition() throws(ObjectError) -> ObjectCondition? {
        switch (tags("If-Match"), noneMatch) {
        case (nil, nil): return nil
        case (nil, "*"?): return .isAbsent
        case (let text?, nil):
            guard let tag = EntityTag(text) ?? EntityTag(strong: text), !tag.isWeak, tag.opaque != "*" else {
                throw ObjectError(.notImplemented, "If-Match must be one entity tag here.")
            }
            return .hasTag(tag.opaque)
        default:
            throw ObjectError(
                .notImplemented,
                "The only conditions allowed are If-Match with a tag, and If-None-Match with *."
            )
        }
    }

    /// The condition on the object that a request deletes.
    ///
    /// - Throws: `NotImplemented`.
    func deleteCondition() throws(ObjectError) -> ObjectCondition? {
        guard noneMatch == nil else {
            throw ObjectError(.notImplemented, "The only condition allowed for a deletion is If-Match.")
        }
        return try tags("If-Match").map { (text) throws(ObjectError) in try ObjectCondition(deleting: text) }
    }

    /// `If-Match` and the other condition fields of a request that reads.
    func readConditions() -> HTTPFields {
        var conditions = HTTPFields()
        for name: FieldName in ["If-Match", "If-None-Match", "If-Range"] {
            if let tags = tags(name) { conditions.append(name, tags) }
        }
        for name: FieldName in ["If-Modified-Since", "If-Unmodified-Since"] {
            if let date = standard[name] { conditions.append(name, date) }
        }
        return conditions
    }
}

extension ObjectCondition {
    /// The condition on an object to be deleted ("How to perform conditional deletes", Amazon S3 User Guide).
    ///
    /// - Parameter text: `*`, or an entity tag with or without quotes.
    /// - Throws: `NotImplemented` for anything else, such as a list.
    init(deleting text: String) throws(ObjectError) {
        guard text != "*" else {
            self = .isPresent
            return
        }
        guard let tag = EntityTag(text) ?? EntityTag(strong: text), !tag.isWeak else {
            throw ObjectError(.notImplemented, "The entity tag of a deletion must be * or one tag.")
        }
        self = .hasTag(tag.opaque)
    }
}
