internal import Bytes
internal import HTTPWire
package import Signing
package import UploadCore
package import UploadModel

/// What a request declares about an object it creates, besides its bytes: PutObject, CopyObject, CreateMultipartUpload.
package struct S3ObjectHeaders: Sendable, Equatable {
    /// `nil` if the request does not declare it.
    package var contentType: String?
    /// Fields returned with the object, by name in lower case; user metadata begins with `x-amz-meta-`.
    package var headers: [String: String]
    package var tags: [String: String]

    package init(contentType: String? = nil, headers: [String: String] = [:], tags: [String: String] = [:]) {
        self.contentType = contentType
        self.headers = headers
        self.tags = tags
    }

    /// Amazon's, in bytes: names, without `x-amz-meta-`, plus values ("User-defined object metadata", Amazon S3 User
    /// Guide).
    package static let maximumUserMetadata = 2048
    /// In bytes, for the other fields, which only the head size bounds otherwise.
    static let maximumSystemMetadata = 2048
    /// In bytes.
    static let maximumContentType = 1024

    static let userPrefix = ObjectAttributes.userPrefix
    private static let system: [FieldName] = [
        "Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language", "Expires",
    ]

    /// - Throws: `MetadataTooLarge`; `InvalidArgument` or `InvalidTag` for invalid tags.
    init(_ request: RequestReader) throws(ObjectError) {
        contentType = request.standard["Content-Type"].flatMap { $0.isEmpty ? nil : $0 }
        headers = [:]
        var userBytes = 0
        var systemBytes = 0
        // Repeated fields form one list (RFC 9110 §5.3).
        for (name, value) in request.all("meta-") {
            let key = Self.userPrefix + name
            headers[key] = headers[key].map { $0 + "," + value } ?? value
            userBytes += value.utf8.count + name.utf8.count
        }
        for name in Self.system {
            for field in request.standard.all(name) {
                // `aws-chunked` is a coding of the message, not of the object.
                let value = name == "Content-Encoding" ? Self.withoutChunks(field) : field
                guard !value.isEmpty else { continue }
                let key = name.spelling.lowercasedASCII()
                headers[key] = headers[key].map { $0 + ", " + value } ?? value
                systemBytes += value.utf8.count + key.utf8.count
            }
        }
        let mostUserBytes = request.vendor.profile.maximumUserMetadata
        guard userBytes <= mostUserBytes else {
            throw ObjectError(
                .metadataTooLarge,
                "The user metadata has more than \(mostUserBytes) bytes.",
                details: [
                    ObjectError.Detail("Size", String(userBytes)),
                    ObjectError.Detail("MaxSizeAllowed", String(mostUserBytes)),
                ]
            )
        }
        guard systemBytes <= Self.maximumSystemMetadata, (contentType?.utf8.count ?? 0) <= Self.maximumContentType
        else {
            throw ObjectError(.metadataTooLarge, "The fields that are kept with the object are too long.")
        }
        tags =
            try request["tagging"].map { (text) throws(ObjectError) in
                try ObjectTagging.tags(header: text, for: request.vendor)
            } ?? [:]
    }

    /// In the form kept with the object.
    package func attributes(checksum: ObjectChecksum? = nil) -> ObjectAttributes {
        ObjectAttributes(headers: headers, tags: tags, checksum: checksum)
    }

    private static func withoutChunks(_ codings: String) -> String {
        codings.utf8.split(separator: UInt8(ascii: ",")).map { Substring($0).trimmingWhitespace() }
            .filter { !$0.isEmpty && $0.lowercasedASCII() != "aws-chunked" }.joined(separator: ", ")
    }
}

extension S3ObjectHeaders {
    /// The upload that becomes the object with this name.
    package func upload(
        _ name: ObjectName,
        _ attributes: ObjectAttributes,
        length: Int64? = nil,
        takesParts: Bool = false,
        for vendor: Vendor
    ) -> NewUpload {
        var values: [String: String] = [:]
        for (header, value) in headers where header.hasPrefix(Self.userPrefix) {
            values[String(header.dropFirst(Self.userPrefix.count))] = value
        }
        if let type = contentType { values["filetype"] = type }
        // A key may have control characters, and the name of a file may not.
        if let file = name.key.split(separator: "/").last.map(String.init), values["filename"] == nil,
            MetadataText.isName(file)
        {
            values["filename"] = file
        }
        var new = NewUpload(
            dialect: vendor.storeName,
            length: length,
            metadata: UploadMetadata(describing: values),
            completesWhenFull: false
        )
        var object = NewObject(name, attributes: attributes, takesParts: takesParts)
        if let field = headers["content-disposition"] { object.fileNames = ContentDisposition.fileNames(in: field) }
        new.object = object
        return new
    }
}
