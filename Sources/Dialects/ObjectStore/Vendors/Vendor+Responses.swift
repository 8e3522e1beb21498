internal import Bytes
internal import HTTPWire
internal import Signing

/// Converts S3 responses to those of OSS and COS.
extension Vendor {
    /// Renames the fields of a response for the vendor's clients.
    ///
    /// - Parameters:
    ///   - fields: The fields of an S3 response.
    ///   - requestID: The request id, as in logs.
    func finish(_ fields: inout HTTPFields, requestID: String) {
        let prefix = Vendor.aws.fieldPrefix
        if self != .aws {
            var named = HTTPFields()
            for index in fields.entries.indices {
                let name = fields.name(at: index)
                let own = name.lowercasedASCII().hasPrefix(prefix) ? fieldPrefix + name.dropFirst(prefix.count) : name
                if let field = FieldName(own) { named.append(field, fields.value(at: index)) }
            }
            fields = named
        }
        if let field = FieldName(fieldPrefix + "request-id") { fields[field] = requestID }
        if let server = profile.server { fields["Server"] = server }
    }

    /// The type of an object, as OSS names it: COS knows two of them, in lower case ("HEAD Object", COS documentation).
    func objectType(_ type: String) -> String {
        self == .tencent ? type == "Appendable" ? "appendable" : "normal" : type
    }

    /// Adds the CRC-64 of a whole object or part, as OSS and COS do: an unsigned decimal number.
    func report(crc64: UInt64?, in fields: inout HTTPFields) {
        guard profile.reportsCRC64, let crc64, let field = FieldName(fieldPrefix + "hash-crc64ecma") else { return }
        fields[field] = String(crc64)
    }

    /// Adds the MD5 of an object or part uploaded in one request, in Base64, as OSS does ("PutObject", OSS
    /// documentation).
    ///
    /// - Parameters:
    ///   - entityTag: The entity tag of such an object or part, which is its MD5 in hexadecimal.
    ///   - fields: The response fields.
    func report(md5 entityTag: String?, in fields: inout HTTPFields) {
        guard profile.reportsMD5, let md5 = entityTag.flatMap({ Hexadecimal.decode($0) }) else { return }
        fields["Content-MD5"] = Base64.encode(md5)
    }

    /// The value of a recorded field in the form that clients receive.
    ///
    /// Non-ASCII user metadata is sent as encoded words to S3 clients ("User-defined object metadata", Amazon S3 User
    /// Guide), and unchanged to others.
    ///
    /// - Parameters:
    ///   - value: The recorded value.
    ///   - name: The recorded field name.
    /// - Returns: The value to send.
    func reported(_ value: String, of name: String) -> String {
        profile.encodesMetadata && name.hasPrefix(S3ObjectHeaders.userPrefix) ? EncodedWords.encode(value) : value
    }

    /// The bytes of an object that a request asks for; see `VendorProfile.RangeRule`.
    ///
    /// - Parameters:
    ///   - reading: `nil` ignores the range.
    ///   - size: Object size in bytes.
    /// - Returns: The selected range, or the reason why no range applies.
    func range(_ reading: ObjectReading?, size: Int64) -> ByteRanges.Selection {
        guard let reading, let field = reading.range, profile.ranges == .firstWithin else {
            return ByteRanges.select(reading?.range, size: size)
        }
        let first = String(field.prefix { $0 != "," })
        let selection = ByteRanges.select(first, size: size, clamps: reading.rangeIsStandard)
        return selection == .unsatisfiable && !reading.rangeIsStandard ? .whole : selection
    }
}
