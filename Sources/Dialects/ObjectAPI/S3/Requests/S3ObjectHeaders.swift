package import HTTPWire
package import UploadCore

/// What a request that makes an object says of it besides its bytes: PutObject, CopyObject, CreateMultipartUpload.
package struct S3ObjectHeaders: Sendable, Equatable {
    /// `nil` if the request does not tell.
    package var contentType: String?
    /// Fields that are told again with the object, by their names in lower case; those of users begin with `x-amz-meta-`.
    package var headers: [String: String]
    package var tags: [String: String]

    package init(contentType: String? = nil, headers: [String: String] = [:], tags: [String: String] = [:]) {
        self.contentType = contentType
        self.headers = headers
        self.tags = tags
    }

    /// Bytes of names, without `x-amz-meta-`, and values ("User-defined object metadata", Amazon S3 User Guide).
    package static let maximumUserMetadata = 2048
    /// Bytes of the other fields, which nothing else bounds but the size of a head.
    static let maximumSystemMetadata = 2048
    /// Bytes of the media type.
    static let maximumContentType = 1024

    static let userPrefix = "x-amz-meta-"
    private static let system: Set<String> = [
        "cache-control", "content-disposition", "content-encoding", "content-language", "expires",
    ]

    /// - Parameter head: An effective one, see `S3Request.effectiveHead`.
    /// - Throws: `MetadataTooLarge`; `InvalidArgument` or `InvalidTag` for tags that are not as they must be.
    package init(_ head: RequestHead) throws(S3Error) {
        let fields = head.fields
        contentType = fields["Content-Type"].flatMap { $0.isEmpty ? nil : $0 }
        headers = [:]
        var userBytes = 0
        var systemBytes = 0
        for index in fields.entries.indices {
            let name = fields.name(at: index).lowercased()
            let isUser = name.hasPrefix(Self.userPrefix)
            guard isUser || Self.system.contains(name) else { continue }
            var value = fields.value(at: index)
            // A coding of the message and not of the object.
            if name == "content-encoding" { value = Self.withoutChunks(value) }
            guard isUser || !value.isEmpty else { continue }
            // Several fields of a name are one list (RFC 9110 §5.3).
            headers[name] = headers[name].map { $0 + (isUser ? "," : ", ") + value } ?? value
            let count = value.utf8.count + name.utf8.count
            if isUser { userBytes += count - Self.userPrefix.utf8.count } else { systemBytes += count }
        }
        guard userBytes <= Self.maximumUserMetadata else {
            throw S3Error(
                .metadataTooLarge,
                details: [
                    S3Error.Detail("Size", String(userBytes)),
                    S3Error.Detail("MaxSizeAllowed", String(Self.maximumUserMetadata)),
                ]
            )
        }
        guard systemBytes <= Self.maximumSystemMetadata, (contentType?.utf8.count ?? 0) <= Self.maximumContentType
        else {
            throw S3Error(.metadataTooLarge, "The fields that are kept with the object are too long.")
        }
        tags = try fields["x-amz-tagging"].map { (text) throws(S3Error) in try S3Tagging.tags(header: text) } ?? [:]
    }

    /// As an object keeps them.
    package func attributes(checksum: ObjectChecksum? = nil) -> ObjectAttributes {
        ObjectAttributes(headers: headers, tags: tags, checksum: checksum)
    }

    private static func withoutChunks(_ codings: String) -> String {
        codings.utf8.split(separator: UInt8(ascii: ",")).map { Substring($0).trimmingWhitespace() }
            .filter { !$0.isEmpty && $0.lowercased() != "aws-chunked" }.joined(separator: ", ")
    }

    /// Whether a copy takes what the request says (`true`) or what the source has, for metadata and tags.
    ///
    /// - Throws: `InvalidArgument` for a directive that is none.
    package static func replaces(_ directive: FieldName, in head: RequestHead) throws(S3Error) -> Bool {
        switch head.fields[directive] {
        case nil, "COPY"?: return false
        case "REPLACE"?: return true
        case let other?: throw .argument(directive.spelling, other, "The directive must be COPY or REPLACE.")
        }
    }

    package static let metadataDirective: FieldName = "x-amz-metadata-directive"
    package static let taggingDirective: FieldName = "x-amz-tagging-directive"
}

extension S3ObjectHeaders {
    /// An upload that becomes the object with this name.
    func upload(
        _ name: ObjectName,
        _ attributes: ObjectAttributes,
        length: Int64? = nil,
        takesParts: Bool = false,
        for dialect: ObjectDialect
    ) -> NewUpload {
        var values: [String: String] = [:]
        for (header, value) in headers where header.hasPrefix(Self.userPrefix) {
            values[String(header.dropFirst(Self.userPrefix.count))] = value
        }
        if let type = contentType { values["filetype"] = type }
        if let file = name.key.split(separator: "/").last, values["filename"] == nil {
            values["filename"] = String(file)
        }
        var new = NewUpload(
            dialect: dialect.rawValue,
            length: length,
            metadata: UploadMetadata(describing: values),
            completesWhenFull: false
        )
        new.object = NewObject(name, attributes: attributes, takesParts: takesParts)
        return new
    }
}
