internal import Bytes
internal import Foundation
internal import HTTPWire
internal import ObjectGrants
internal import Signing
package import UploadModel

/// Objects that anyone can read without a credential.
package struct PublicRead: Sendable {
    /// A bucket, or the keys of a bucket that begin with a prefix.
    package struct Rule: Sendable, Equatable {
        package let bucket: String
        /// Empty for all keys.
        package let prefix: String

        /// Parses `bucket` or `bucket/prefix`; `nil` if it is invalid.
        ///
        /// Also `nil` for a prefix that reads as something else than it is: with `*`, control characters, or a segment
        /// `.` or `..`, which clients and proxies resolve.
        package init?(_ text: String) {
            let slash = text.utf8.firstIndex(of: UInt8(ascii: "/")) ?? text.endIndex
            let (bucket, rest) = (String(text[..<slash]), text.utf8[slash...].dropFirst())
            let segments = rest.split(separator: UInt8(ascii: "/")).map { String(Substring($0)) }
            guard S3Names.isBucket(bucket), rest.count <= S3Names.maximumKeyByteCount,
                !segments.contains(where: { $0 == "." || $0 == ".." }),
                rest.allSatisfy({ $0 >= 0x20 && $0 != 0x7F && $0 != UInt8(ascii: "*") })
            else { return nil }
            self.bucket = bucket
            prefix = String(Substring(rest))
        }

        /// Compares bytes, because keys that look the same may differ.
        package func covers(_ name: ObjectName) -> Bool {
            name.bucket.utf8.elementsEqual(bucket.utf8) && name.key.utf8.starts(with: prefix.utf8)
        }
    }

    private let rules: [Rule]
    /// Seconds for which caches may keep an object that does not specify its own time.
    let maximumAge: Int64

    package init(_ rules: [Rule] = [], maximumAge: Int64 = 0) {
        self.rules = rules
        self.maximumAge = maximumAge
    }

    /// The sender of a request without a signature.
    ///
    /// - Parameters:
    ///   - head: The head as sent.
    ///   - address: The addressed bucket or object.
    /// - Returns: A caller who can read this object; `nil` if the object is not public, or the request has a part of a
    ///   signature.
    func reader(_ head: RequestHead, at address: EndpointHosts.Address) -> ObjectCaller? {
        guard let bucket = address.bucket else { return nil }
        let name = ObjectName(bucket: bucket, key: address.key)
        guard rules.contains(where: { $0.covers(name) }), head.isUnsigned else { return nil }
        return ObjectCaller(reading: name)
    }

    /// Sets the fields for caches and browsers.
    ///
    /// - Parameters:
    ///   - fields: The fields of a response with a public object.
    ///   - key: The key of the object.
    func finish(_ fields: inout HTTPFields, _ key: String) {
        // A cache must not give the response for one page's origin, or for no page, to a page of another one.
        fields["Vary"] = BucketCORS.vary
        if !fields.contains("Cache-Control"), !fields.contains("Expires") {
            fields["Cache-Control"] = "public, max-age=\(maximumAge)"
        }
        let type = fields["Content-Type"].flatMap { MediaType($0) }
        guard type?.isSafeInline != true else { return }
        let own = fields["Content-Disposition"].flatMap(ContentDisposition.fileName)
        fields["Content-Disposition"] = ContentDisposition.attachment(fileName: own ?? Self.fileName(of: key))
    }

    private static func fileName(of key: String) -> String {
        key.utf8.split(separator: UInt8(ascii: "/")).last.map { String(Substring($0)) } ?? "object"
    }
}

extension ObjectOperation {
    /// Whether anyone can request it for a public object: it reads the object as it is.
    ///
    /// S3 refuses `response-…` parameters and versions without a signature too ("GetObject", Amazon S3 API Reference).
    var isPlainReading: Bool {
        switch self {
        case .getObject(_, let reading), .headObject(_, let reading): reading.overrides.isEmpty
        default: false
        }
    }
}

extension RequestHead {
    /// Whether the request has no part of a signature of any vendor, in the header or in the query.
    ///
    /// A request with a part of a signature must be verified, also for a public object, so that its client learns that
    /// the signature is wrong.
    fileprivate var isUnsigned: Bool {
        guard let query = try? target.queryItems().items else { return false }
        let names = fields.entries.indices.map { fields.name(at: $0).lowercasedASCII() }
        return !names.contains { Self.signatureFields.contains($0) || $0.hasSuffix("-security-token") }
            && !query.contains { item in
                let name = item.name.lowercasedASCII()
                return Self.parameters.contains(name) || COSVerifier.isWhole(SigningField(item.name, item.value))
                    || ["x-amz-", "x-oss-", "x-cos-", "q-"].contains(where: name.hasPrefix)
            }
    }

    private static let signatureFields: Set<String> = ["authorization", COSVerifier.forwardedHost]
    /// Those of signatures, and that of versions, which S3 does not give to anyone.
    private static let parameters: Set<String> = [
        "awsaccesskeyid", "ossaccesskeyid", "signature", "security-token", "versionid",
    ]
}
