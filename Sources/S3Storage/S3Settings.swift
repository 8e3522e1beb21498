/// Which store it is, and how it is used.
package struct S3Settings: Sendable, Equatable {
    /// `http(s)://host[:port]`, without a path.
    package var endpoint: String
    package var region: String
    package var bucket: String
    /// Further ones, which a grant may name.
    package var otherBuckets: [String] = []
    /// `https://host/bucket/key`; otherwise `https://bucket.host/key`.
    package var isPathStyle = false
    /// Makes the bucket when it is not there.
    package var createsBucket = false
    package var keys = KeyTemplate.default
    /// Before the names of objects with bytes that make no part yet.
    package var sidePrefix = ".sluice/"
    /// `x-amz-storage-class` of objects.
    package var storageClass: String?
    package var encryption: Encryption?
    /// Bytes of a part, unless so many would be too many parts; the last one may have fewer.
    package var partSize: Int64 = 8 << 20
    /// The fewest bytes that the store takes as a part that is not the last one.
    package var minimumPartSize: Int64 = 5 << 20
    package var maximumParts = 10_000
    /// The store wants all parts but the last one to have the same size.
    package var needsEqualParts = false
    /// Compares entity tags with the MD5 of what was sent; not for a store that encrypts with keys of its own by default.
    package var checksTags = true
    /// Sends `Content-MD5` with all bytes, so that the store refuses what was changed on the way; parts leave when they are
    /// whole.
    package var sendsContentMD5 = false
    /// Of one upload, on their way at the same time.
    package var parallelParts = 4
    /// How long a request is tried again after it has failed first.
    package var retryTime = Duration.seconds(30)
    /// Without a byte to or from the store.
    package var stallTimeout = Duration.seconds(30)
    /// How long a client waits while the store makes one object of the parts.
    package var completionWait = Duration.seconds(20)
    /// Seconds for which a URL of the store is valid to which downloads are redirected; `nil` passes the bytes through.
    package var redirectLifetime: Int64?

    package enum Encryption: Sendable, Equatable {
        /// `AES256`
        case store
        /// `aws:kms`, with the id of a key or that of the bucket.
        case kms(keyID: String?)
    }

    package init(endpoint: String, region: String, bucket: String) {
        self.endpoint = endpoint
        self.region = region
        self.bucket = bucket
    }

    /// Entity tags of parts and objects are MD5s of their bytes, and are compared.
    var tagsAreDigests: Bool {
        if case .kms = encryption { return false }
        return checksTags
    }

    /// The digest of a part is needed for one or the other.
    var needsDigests: Bool { tagsAreDigests || sendsContentMD5 }

    /// Bytes of the part with this number.
    ///
    /// Of an upload whose length was not known the size doubles again and again in the second half, so that the parts do not
    /// run out.
    func size(ofPart number: Int, base: Int64) -> Int64 {
        let half = maximumParts / 2
        guard !needsEqualParts, number > half else { return base }
        let doublings = (number - half - 1) / max(1, maximumParts / 20) + 1
        return min(base << Int64(min(doublings, 10)), Self.largestPart)
    }

    /// The size of parts for an upload of so many bytes.
    ///
    /// - Returns: `nil` if no size is large enough.
    func partSize(for length: Int64?) -> Int64? {
        guard let length else { return partSize }
        let most = Int64(needsEqualParts ? maximumParts : maximumParts / 2)
        let least = (length + most - 1) / most
        guard least <= Self.largestPart else { return nil }
        return max(partSize, (least + Self.unit - 1) / Self.unit * Self.unit)
    }

    /// AWS: 5 GiB.
    static let largestPart: Int64 = 5 << 30
    private static let unit: Int64 = 1 << 20
}
