internal import Bytes
package import HTTPWire
internal import Signing
internal import UploadCore
package import UploadModel

/// The source of a copy (`x-amz-copy-source`) and its conditions.
package struct CopySource: Sendable, Equatable {
    package let object: ObjectName
    /// `If-Match` and the other conditions on the source.
    ///
    /// A failed one is 412, even where it would be 304 otherwise.
    package let conditions: HTTPFields

    package init(_ object: ObjectName, conditions: HTTPFields = HTTPFields()) {
        self.object = object
        self.conditions = conditions
    }

    /// `nil` if a request has no source.
    ///
    /// - Throws: `InvalidArgument`; `NotImplemented` for a version; errors for invalid names.
    init?(_ request: RequestReader) throws(ObjectError) {
        guard let named = request["copy-source"] else { return nil }
        let text = try Self.path(named, request.vendor)
        let message = "Copy Source must mention the source bucket and key: sourcebucket/sourcekey"
        var path = text.utf8[...]
        if let mark = path.firstIndex(of: UInt8(ascii: "?")) {
            let query: QueryItems
            do throws(QueryItems.Failure) {
                query = try QueryItems(String(Substring(path[path.index(after: mark)...])))
            } catch {
                throw .argument("x-amz-copy-source", text, message)
            }
            let isNone: (String) -> Bool = { $0 == "null" || ($0.isEmpty && request.vendor != .aws) }
            guard query.items.allSatisfy({ $0.name != "versionId" || isNone($0.value) }) else {
                throw ObjectError.noVersions
            }
            path = path[..<mark]
        }
        if path.first == UInt8(ascii: "/") { path = path.dropFirst() }
        guard let decoded = PercentEncoding.text(path),
            let slash = decoded.utf8.firstIndex(of: UInt8(ascii: "/"))
        else { throw .argument("x-amz-copy-source", text, message) }
        let bucket = String(Substring(decoded.utf8[..<slash]))
        let key = request.vendor.key(String(Substring(decoded.utf8[decoded.utf8.index(after: slash)...])))
        guard !key.isEmpty else { throw .argument("x-amz-copy-source", text, message) }
        try S3Names.check(bucket: bucket)
        try S3Names.check(key: key, for: request.vendor)
        object = ObjectName(bucket: bucket, key: key)

        var conditions = HTTPFields()
        for (name, condition): (String, FieldName) in [("match", "If-Match"), ("none-match", "If-None-Match")] {
            if let tags = request["copy-source-if-" + name] { conditions.append(condition, request.recorded(tags)) }
        }
        let dates: [(String, FieldName)] = [
            ("modified-since", "If-Modified-Since"), ("unmodified-since", "If-Unmodified-Since"),
        ]
        for (name, condition) in dates {
            if let date = request["copy-source-if-" + name] { conditions.append(condition, date) }
        }
        self.conditions = conditions
    }

    /// The source as `bucket/key`, percent-encoded, optionally with a leading slash.
    private static func path(_ text: String, _ vendor: Vendor) throws(ObjectError) -> String {
        switch vendor.profile.copySource {
        case .path: return text
        case .formEncodedPath: return text.replacing("+", with: "%20")
        case .host:
            let path = text.hasPrefix("/") ? text.dropFirst() : text[...]
            guard let slash = path.firstIndex(of: "/"), let bucket = path[..<slash].split(separator: ".").first else {
                throw .argument("x-cos-copy-source", text, "The source of a copy must be <bucket>.<host>/<key>.")
            }
            return "/\(bucket)\(path[slash...])"
        }
    }

    /// The range of the source (`x-amz-copy-source-range`), first to last byte; `nil` for all bytes.
    ///
    /// - Throws: `InvalidArgument` for anything but `bytes=first-last`.
    static func range(_ request: RequestReader) throws(ObjectError) -> ClosedRange<Int64>? {
        guard let text = request["copy-source-range"] else { return nil }
        let parts = text.utf8.starts(with: "bytes=".utf8) ? text.dropFirst(6).split(separator: "-") : []
        guard parts.count == 2, text.dropFirst(6).utf8.count == parts[0].utf8.count + parts[1].utf8.count + 1,
            let first = ObjectParameters.number(parts[0]), let last = ObjectParameters.number(parts[1]), first <= last
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
