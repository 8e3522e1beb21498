internal import Signing

/// A request for a page of buckets.
package struct BucketListing: Sendable, Equatable {
    /// Only names with this prefix; `nil` if the request says nothing of it.
    package var prefix: String?
    /// Only buckets of this region; S3.
    package var region: String?
    /// Only names after this one: `marker`, or that of the continuation token.
    package var marker: String?
    /// At most so many; `nil` for all.
    package var maximum: Int?

    package init() {}

    /// - Throws: `InvalidArgument`.
    init(_ parameters: ObjectParameters, for vendor: Vendor) throws(ObjectError) {
        prefix = try parameters.nonEmpty("prefix")
        guard vendor == .aws else {
            marker = try parameters.nonEmpty("marker")
            let text = "Argument max-keys must be an integer between 1 and 2000"
            maximum = try parameters.number("max-keys", in: 1...2000, text)
            return
        }
        region = try parameters.nonEmpty("bucket-region")
        let text = "Argument max-buckets must be an integer between 1 and 10000"
        maximum = try parameters.number("max-buckets", in: 1...10_000, text)
        guard let token = try parameters.nonEmpty("continuation-token") else { return }
        guard case .key(let name, _)? = ListingPosition(token: token) else {
            throw .argument("continuation-token", token, "The continuation token provided is incorrect")
        }
        marker = name
    }

    /// Whether the request limits the list in any way.
    var isLimited: Bool { self != BucketListing() }

    /// The page of these buckets, which are in order of their names.
    ///
    /// - Returns: The buckets of the page, and whether others follow.
    func page<Bucket>(of buckets: [Bucket], in own: String, name: (Bucket) -> String) -> ([Bucket], isTruncated: Bool) {
        guard region == nil || region == own else { return ([], false) }
        let found = buckets.filter { bucket in
            let name = name(bucket)
            // Byte order, as the state has it; all characters of names are ASCII.
            return name.hasPrefix(prefix ?? "") && (marker.map { $0 < name } ?? true)
        }
        guard let maximum, found.count > maximum else { return (found, false) }
        return (Array(found.prefix(maximum)), true)
    }
}

/// A request for a page of keys (ListObjects, ListObjectsV2, and ListObjectVersions for buckets without versions).
package struct ObjectListing: Sendable, Equatable {
    package enum Version: Sendable {
        case one, two
        /// Each object is its only version, `null`.
        case versions
    }

    package var version: Version
    package var bucket: String
    /// Only keys with this prefix.
    package var prefix: String
    /// Keys are grouped by the part up to its first occurrence after the prefix; `nil` lists all keys.
    package var delimiter: String?
    /// 0 to 1000.
    package var maximum: Int
    package var encodesURL: Bool
    /// `marker`, `start-after` or `key-marker`, unchanged.
    package var marker: String?
    /// The continuation token, unchanged; version 2.
    ///
    /// An empty one begins a listing.
    package var token: String?
    /// Version 2; the others always include the owner.
    package var wantsOwner: Bool

    /// - Throws: `InvalidArgument`.
    init(_ parameters: ObjectParameters, bucket: String) throws(ObjectError) {
        self.bucket = bucket
        switch try parameters.nonEmpty("list-type") {
        case nil: version = .one
        case "2": version = .two
        case let other?: throw .argument("list-type", other, "Invalid List Type specified in Request")
        }
        prefix = try parameters.text("prefix") ?? ""
        delimiter = try parameters.nonEmpty("delimiter")
        maximum = try parameters.pageSize("max-keys")
        encodesURL = try parameters.encodesURL()
        marker = try parameters.nonEmpty(version == .one ? "marker" : "start-after")
        token = nil
        wantsOwner = version == .one
        guard version == .two else { return }
        token = try parameters.text("continuation-token")
        wantsOwner = try parameters.text("fetch-owner") == "true"
    }

    /// A list of the versions, which a bucket without versions has, too: scripts empty buckets by it.
    ///
    /// - Throws: `InvalidArgument`.
    init(versions parameters: ObjectParameters, bucket: String) throws(ObjectError) {
        self.bucket = bucket
        version = .versions
        prefix = try parameters.text("prefix") ?? ""
        delimiter = try parameters.nonEmpty("delimiter")
        maximum = try parameters.pageSize("max-keys")
        encodesURL = try parameters.encodesURL()
        marker = try parameters.nonEmpty("key-marker")
        wantsOwner = true
        let id = try parameters.nonEmpty("version-id-marker")
        guard marker != nil || id == nil else {
            throw .argument("version-id-marker", id, "A version-id marker cannot be specified without a key marker.")
        }
    }

    /// Where the page begins; `nil` for the first key.
    ///
    /// - Throws: `InvalidArgument` for an invalid token.
    package func start() throws(ObjectError) -> ListingPosition? {
        guard let token, !token.isEmpty else {
            return marker.map { ListingPosition(marker: $0, prefix: prefix, delimiter: delimiter) }
        }
        guard let position = ListingPosition(token: token) else {
            throw .argument("continuation-token", token, "The continuation token provided is incorrect")
        }
        return position
    }
}

/// A request for a page of open multipart uploads.
package struct UploadListing: Sendable, Equatable {
    package var bucket: String
    package var prefix: String
    package var delimiter: String?
    package var keyMarker: String?
    /// Only together with a key marker.
    package var uploadIDMarker: String?
    /// 0 to 1000.
    package var maximum: Int
    package var encodesURL: Bool

    /// - Throws: `InvalidArgument`.
    init(_ parameters: ObjectParameters, bucket: String) throws(ObjectError) {
        self.bucket = bucket
        prefix = try parameters.text("prefix") ?? ""
        delimiter = try parameters.nonEmpty("delimiter")
        keyMarker = try parameters.nonEmpty("key-marker")
        uploadIDMarker = keyMarker == nil ? nil : try parameters.nonEmpty("upload-id-marker")
        maximum = try parameters.pageSize("max-uploads")
        encodesURL = try parameters.encodesURL()
    }

    /// Where the page begins; `nil` for the first upload.
    package var start: ListingPosition? {
        guard let keyMarker else { return nil }
        if let uploadIDMarker { return .key(keyMarker, id: uploadIDMarker) }
        return ListingPosition(marker: keyMarker, prefix: prefix, delimiter: delimiter)
    }
}
