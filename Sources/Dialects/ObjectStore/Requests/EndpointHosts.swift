internal import Bytes
package import HTTPWire
internal import Signing

/// The host names of the endpoint, used to find the bucket in a request's address.
///
/// "Virtual hosting of general purpose buckets", Amazon S3 User Guide: `https://bucket.host/key` if the host is one of these,
/// otherwise `https://host/bucket/key`.
package struct EndpointHosts: Sendable {
    /// What a request is addressed to.
    package struct Address: Sendable, Equatable {
        /// `nil` for the service itself.
        package let bucket: String?
        /// Decoded once; empty for the bucket itself.
        package let key: String

        package init(bucket: String?, key: String) {
            self.bucket = bucket
            self.key = key
        }

        /// What a client of this vendor means by it.
        func meant(to vendor: Vendor) -> Address { Address(bucket: bucket, key: vendor.key(key)) }
    }

    /// In lower case, without ports.
    private let hosts: [String]

    /// - Parameter hosts: Names of the endpoint, without ports; a bucket precedes them as a subdomain.
    package init(hosts: [String] = []) {
        // Longest first, because one name may be a suffix of another.
        self.hosts = hosts.map { $0.lowercasedASCII() }.sorted { $0.utf8.count > $1.utf8.count }
    }

    /// Splits target and host of a request without validating the names.
    ///
    /// An encoded slash is part of the key; `.`, `..` and `//` are kept, and `+` is not a space.
    package func address(of head: RequestHead) -> Address {
        let path = head.target.segments.joined(separator: "/")
        if let bucket = bucket(inHost: head.target.authority ?? head.fields["Host"] ?? "") {
            return Address(bucket: bucket, key: path)
        }
        guard !path.isEmpty else { return Address(bucket: nil, key: "") }
        let bytes = path.utf8
        guard let slash = bytes.firstIndex(of: UInt8(ascii: "/")) else { return Address(bucket: path, key: "") }
        return Address(
            bucket: String(Substring(bytes[..<slash])),
            key: String(Substring(bytes[bytes.index(after: slash)...]))
        )
    }

    /// All possible addresses of a request, the most likely first.
    ///
    /// - Parameters:
    ///   - head: The request head.
    ///   - bucket: The bucket of the credentials, for which the whole path may be the key.
    ///   - plusIsSpace: Whether a `+` in the path may stand for a space.
    /// - Returns: At least one address.
    func addresses(of head: RequestHead, bucket: String?, plusIsSpace: Bool = false) -> [Address] {
        var addresses = [address(of: head)]
        if self.bucket(inHost: head.target.authority ?? head.fields["Host"] ?? "") == nil {
            let path = head.target.segments.joined(separator: "/")
            // No bucket has an empty name: `//` is the service. OSS's SDK in C++ lists buckets so, and signs `/`.
            if !path.isEmpty, path.utf8.allSatisfy({ $0 == UInt8(ascii: "/") }) {
                addresses.append(Address(bucket: nil, key: ""))
            }
            if let bucket {
                let address = Address(bucket: bucket, key: path)
                if !addresses.contains(address) { addresses.append(address) }
            }
        }
        let target = head.target
        guard plusIsSpace, target.rawPath.utf8.contains(UInt8(ascii: "+")),
            let spaced = try? RequestTarget(parsing: target.rawPath.replacing("+", with: "%20"))
        else { return addresses }
        var other = head
        other.target = RequestTarget(
            rawPath: spaced.rawPath,
            rawQuery: target.rawQuery,
            authority: target.authority,
            segments: spaced.segments
        )
        return addresses + self.addresses(of: other, bucket: bucket)
    }

    /// Whether the host of a URL begins with a bucket.
    func names(_ bucket: String, inHostOf url: String) -> Bool {
        guard let mark = url.firstRange(of: "://") else { return false }
        let host = url[mark.upperBound...].prefix { $0 != "/" && $0 != ":" }.lowercasedASCII()
        return !hosts.contains(host) && host.hasPrefix(bucket + ".")
    }

    /// The bucket in a host name, before one of the endpoint's names.
    func bucket(inHost host: String) -> String? {
        let host = host.lowercasedASCII()
        // An IPv6 address contains colons and is not a name with a bucket.
        let name = host.hasPrefix("[") ? host : String(host.prefix { $0 != ":" })
        guard !hosts.contains(name) else { return nil }
        for own in hosts where name.hasSuffix("." + own) {
            let bucket = name.dropLast(own.count + 1)
            return bucket.isEmpty ? nil : String(bucket)
        }
        return nil
    }
}
