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
    package var token: String?
    /// Version 2; the others always include the owner.
    package var wantsOwner: Bool

    /// An empty token begins a listing.
    ///
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
        token = try parameters.nonEmpty("continuation-token")
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
        guard let token else {
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
