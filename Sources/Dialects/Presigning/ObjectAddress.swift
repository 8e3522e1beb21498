internal import Signing

/// The address of a store's objects.
package struct ObjectAddress: Sendable, Equatable {
    /// `https://host[:port]`, in lower case, without the default port.
    package let origin: String
    /// Whether the bucket is in the path (`https://host/bucket/key`) or in the host name (`https://bucket.host/key`).
    package let isPathStyle: Bool

    package init(origin: String, isPathStyle: Bool) {
        self.origin = origin
        self.isPathStyle = isPathStyle
    }

    /// The location of an object.
    ///
    /// - Parameters:
    ///   - bucket: The bucket; a name with a dot goes into the path, because wildcard certificates cover one label
    ///     only.
    ///   - key: The key; empty for the bucket itself.
    /// - Returns: Scheme and authority, and the escaped path.
    func place(_ bucket: String, _ key: String) -> (origin: String, path: String) {
        guard !isPathStyle, !bucket.utf8.contains(UInt8(ascii: ".")), let mark = origin.firstRange(of: "://") else {
            return (origin, SigningRequest.path(of: "/\(bucket)/\(key)"))
        }
        return (
            origin[..<mark.upperBound] + "\(bucket)." + origin[mark.upperBound...], SigningRequest.path(of: "/\(key)")
        )
    }

    /// The value of the header `Host` for `scheme://host[:port]`.
    static func host(of origin: String) -> String {
        origin.firstRange(of: "://").map { String(origin[$0.upperBound...]) } ?? origin
    }
}
