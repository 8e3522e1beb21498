internal import Signing

/// Where objects of a store are reached.
package struct ObjectAddress: Sendable, Equatable {
    /// `https://host[:port]`, in lower case, without a port that goes without saying.
    package let origin: String
    /// Whether the bucket stands in the path (`https://host/bucket/key`), or in front of the host (`https://bucket.host/key`).
    package let isPathStyle: Bool

    package init(origin: String, isPathStyle: Bool) {
        self.origin = origin
        self.isPathStyle = isPathStyle
    }

    /// Where an object is.
    ///
    /// - Parameters:
    ///   - bucket: Its bucket; with a dot in its name it stands in the path, because certificates are for one label only.
    ///   - key: Its key; empty for the bucket itself.
    /// - Returns: Scheme and authority, and the path with its escapes.
    func place(_ bucket: String, _ key: String) -> (origin: String, path: String) {
        guard !isPathStyle, !bucket.utf8.contains(UInt8(ascii: ".")), let mark = origin.firstRange(of: "://") else {
            return (origin, SigningRequest.path(of: "/\(bucket)/\(key)"))
        }
        return (
            origin[..<mark.upperBound] + "\(bucket)." + origin[mark.upperBound...], SigningRequest.path(of: "/\(key)")
        )
    }

    /// Of `scheme://host[:port]`, what stands in the header `Host`.
    static func host(of origin: String) -> String {
        origin.firstRange(of: "://").map { String(origin[$0.upperBound...]) } ?? origin
    }
}
