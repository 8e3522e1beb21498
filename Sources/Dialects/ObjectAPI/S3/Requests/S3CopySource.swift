internal import Bytes
package import HTTPWire
package import UploadCore

/// The object that a copy is made of (`x-amz-copy-source`), and on what conditions.
package struct S3CopySource: Sendable, Equatable {
    package let object: ObjectName
    /// The fields `If-Match` and so on that the source must meet; what does not hold is 412, also where it would be 304.
    package let conditions: HTTPFields

    package init(_ object: ObjectName, conditions: HTTPFields = HTTPFields()) {
        self.object = object
        self.conditions = conditions
    }

    /// `nil` if a request has no source.
    ///
    /// - Throws: `InvalidArgument`; `NotImplemented` for a version; what is wrong with the names.
    init?(_ fields: HTTPFields) throws(S3Error) {
        guard let text = fields["x-amz-copy-source"] else { return nil }
        let message = "Copy Source must mention the source bucket and key: sourcebucket/sourcekey"
        var path = text.utf8[...]
        if let mark = path.firstIndex(of: UInt8(ascii: "?")) {
            let query: QueryItems
            do throws(QueryItems.Failure) {
                query = try QueryItems(String(Substring(path[path.index(after: mark)...])))
            } catch {
                throw .argument("x-amz-copy-source", text, message)
            }
            guard query.items.allSatisfy({ $0.name != "versionId" || $0.value == "null" }) else {
                throw S3Error.noVersions
            }
            path = path[..<mark]
        }
        if path.first == UInt8(ascii: "/") { path = path.dropFirst() }
        guard let bytes = PercentEncoding.decode(path), let decoded = String(validating: bytes, as: UTF8.self),
            let slash = decoded.utf8.firstIndex(of: UInt8(ascii: "/"))
        else { throw .argument("x-amz-copy-source", text, message) }
        let bucket = String(Substring(decoded.utf8[..<slash]))
        let key = String(Substring(decoded.utf8[decoded.utf8.index(after: slash)...]))
        guard !key.isEmpty else { throw .argument("x-amz-copy-source", text, message) }
        try S3Names.check(bucket: bucket)
        try S3Names.check(key: key)
        object = ObjectName(bucket: bucket, key: key)

        var conditions = HTTPFields()
        let names: KeyValuePairs<FieldName, FieldName> = [
            "x-amz-copy-source-if-match": "If-Match", "x-amz-copy-source-if-none-match": "If-None-Match",
            "x-amz-copy-source-if-modified-since": "If-Modified-Since",
            "x-amz-copy-source-if-unmodified-since": "If-Unmodified-Since",
        ]
        for (name, condition) in names {
            if let value = fields[name] { conditions.append(condition, value) }
        }
        self.conditions = conditions
    }

    /// Bytes of the source, from the first to the last (`x-amz-copy-source-range`); `nil` for all.
    ///
    /// - Throws: `InvalidArgument` for anything but `bytes=first-last`.
    static func range(_ fields: HTTPFields) throws(S3Error) -> ClosedRange<Int64>? {
        guard let text = fields["x-amz-copy-source-range"] else { return nil }
        let parts = text.utf8.starts(with: "bytes=".utf8) ? text.dropFirst(6).split(separator: "-") : []
        guard parts.count == 2, text.dropFirst(6).utf8.count == parts[0].utf8.count + parts[1].utf8.count + 1,
            let first = S3Parameters.number(parts[0]), let last = S3Parameters.number(parts[1]), first <= last
        else {
            throw .argument(
                "x-amz-copy-source-range",
                text,
                "The x-amz-copy-source-range value must be of the form bytes=first-last where first and last are the "
                    + "zero-based offsets of the first and last bytes to copy"
            )
        }
        return Int64(first)...Int64(last)
    }
}
