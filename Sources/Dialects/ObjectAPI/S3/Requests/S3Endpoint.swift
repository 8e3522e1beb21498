package import HTTPWire

/// Where the endpoint is reached, so that the bucket of a request can be told from its address.
///
/// "Virtual hosting of general purpose buckets", Amazon S3 User Guide: `https://bucket.host/key` if the host is one of these,
/// otherwise `https://host/bucket/key`.
package struct S3Endpoint: Sendable {
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
    }

    /// In lower case, without port.
    private let hosts: [String]

    /// - Parameter hosts: Names by which it is reached, without port; buckets are in front of them, with a dot between.
    package init(hosts: [String] = []) {
        // The longest first: one of the names may stand behind another one.
        self.hosts = hosts.map { $0.lowercased() }.sorted { $0.utf8.count > $1.utf8.count }
    }

    /// Takes the target and the host of a request apart; names are not looked at.
    ///
    /// An encoded slash is one of the key, as every other; nothing is made of `.`, `..` and `//`, and `+` is no space.
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

    /// All that a request may be addressed to, the likeliest first.
    ///
    /// - Parameters:
    ///   - head: Of the request.
    ///   - bucket: For which the path may be the whole key: that of the credentials.
    ///   - plusIsSpace: Whether a `+` in the path may stand for a space.
    /// - Returns: At least one.
    func addresses(of head: RequestHead, bucket: String?, plusIsSpace: Bool = false) -> [Address] {
        var addresses = [address(of: head)]
        if self.bucket(inHost: head.target.authority ?? head.fields["Host"] ?? "") == nil {
            let path = head.target.segments.joined(separator: "/")
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

    /// The bucket that a host names: behind it stands one of ours.
    func bucket(inHost host: String) -> String? {
        let host = host.lowercased()
        // An IPv6 address has colons of its own, and is no name with a bucket in front.
        let name = host.hasPrefix("[") ? host : String(host.prefix { $0 != ":" })
        guard !hosts.contains(name) else { return nil }
        for own in hosts where name.hasSuffix("." + own) {
            let bucket = name.dropLast(own.count + 1)
            return bucket.isEmpty ? nil : String(bucket)
        }
        return nil
    }
}
