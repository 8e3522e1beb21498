internal import Bytes
internal import HTTPWire

/// Answers of OSS and COS out of those of S3.
extension ObjectDialect {
    /// Gives the fields of an answer the names that the vendor's clients look for.
    ///
    /// - Parameters:
    ///   - fields: As an answer of S3 has them.
    ///   - requestID: As in logs.
    func finish(_ fields: inout HTTPFields, requestID: String) {
        let prefix = ObjectDialect.s3.fieldPrefix
        if self != .s3 {
            var named = HTTPFields()
            for index in fields.entries.indices {
                let name = fields.name(at: index)
                let own = name.lowercased().hasPrefix(prefix) ? fieldPrefix + name.dropFirst(prefix.count) : name
                if let field = FieldName(own) { named.append(field, fields.value(at: index)) }
            }
            fields = named
        }
        if let field = FieldName(fieldPrefix + "request-id") { fields[field] = requestID }
    }

    /// Tells the CRC-64 of a whole object or part, as OSS and COS do: a decimal number without sign.
    func tell(crc64: UInt64?, in fields: inout HTTPFields) {
        guard self != .s3, let crc64, let field = FieldName(fieldPrefix + "hash-crc64ecma") else { return }
        fields[field] = String(crc64)
    }

    /// Tells the MD5 of content that came at once, in Base64, as OSS does ("PutObject", OSS documentation).
    ///
    /// - Parameters:
    ///   - entityTag: Of an object or part that came at once; its MD5 in hexadecimal.
    ///   - fields: Of the answer.
    func tell(md5 entityTag: String?, in fields: inout HTTPFields) {
        guard self == .oss, let md5 = entityTag.flatMap({ Hexadecimal.decode($0) }) else { return }
        fields["Content-MD5"] = Base64.encode(md5)
    }

    /// The value of a field that is kept with an object, as clients are told it.
    ///
    /// Metadata of users that are not ASCII are in encoded words for clients of S3 ("User-defined object metadata", Amazon S3 User
    /// Guide); for the others they are what came.
    ///
    /// - Parameters:
    ///   - value: As it came.
    ///   - name: Of the field, as it is kept.
    /// - Returns: The value to send.
    func told(_ value: String, of name: String) -> String {
        self == .s3 && name.hasPrefix(S3ObjectHeaders.userPrefix) ? EncodedWords.encode(value) : value
    }

    /// Which bytes of an object a request asks for.
    ///
    /// OSS takes the first of several ranges, and passes over one that does not lie within the object, unless the request asks for
    /// what HTTP says ("How to obtain OSS resources by segmenting HTTP Range requests", OSS documentation).
    ///
    /// - Parameters:
    ///   - field: The value of Range, `nil` if there is none.
    ///   - size: Bytes of the object.
    ///   - head: Of the request, as it came.
    /// - Returns: What to answer with.
    func range(_ field: String?, size: Int64, _ head: RequestHead) -> ByteRanges.Selection {
        guard self == .oss, let field else { return ByteRanges.select(field, size: size) }
        let isStandard = head.fields["x-oss-range-behavior"] == "standard"
        let first = String(field.prefix { $0 != "," })
        let selection = ByteRanges.select(first, size: size, clamps: isStandard)
        return selection == .unsatisfiable && !isStandard ? .whole : selection
    }
}
