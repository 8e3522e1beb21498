/// The store and how it is used.
package struct S3Settings: Sendable, Equatable {
    /// `http(s)://host[:port]`, without a path.
    package var endpoint: String
    package var region: String
    package var bucket: String
    /// Additional buckets that a grant can name.
    package var otherBuckets: [String] = []
    /// Whether URLs are `https://host/bucket/key` instead of `https://bucket.host/key`.
    package var isPathStyle = false
    /// Whether a missing bucket is created.
    package var createsBucket = false
    package var keys = KeyTemplate.default
    /// Key prefix of tail objects, with bytes after the last complete part.
    package var tailPrefix = ".sluice/"
    /// `x-amz-storage-class` of objects.
    package var storageClass: String?
    package var encryption: Encryption?
    /// Size of a part in bytes, unless this would make too many parts; the last part can be smaller.
    package var partSize: Int64 = 8 << 20
    /// Minimum size that the store accepts for a part that is not the last.
    package var minimumPartSize: Int64 = 5 << 20
    package var maximumParts = 10_000
    /// Whether the store requires the same size for all parts except the last.
    package var needsEqualParts = false
    /// Whether entity tags are compared with the MD5 of the sent bytes; not for a store that encrypts with its own keys
    /// by default.
    package var checksTags = true
    /// Whether `Content-MD5` is sent with all bytes, so that the store refuses changed ones; parts are then sent only
    /// when they are complete.
    package var sendsContentMD5 = false
    /// Maximum number of concurrent part uploads of one append.
    package var parallelParts = 4
    /// How long a request is retried after its first failure.
    package var retryTime = Duration.seconds(30)
    /// Maximum time without a byte to or from the store.
    package var stallTimeout = Duration.seconds(30)
    /// How long a client waits while the store combines the parts into one object.
    package var completionWait = Duration.seconds(20)
    /// Lifetime in seconds of the store's URLs that downloads are redirected to; `nil` streams the bytes through the
    /// gateway.
    package var redirectLifetime: Int64?

    package enum Encryption: Sendable, Equatable {
        /// `AES256`
        case store
        /// `aws:kms`, with a key id or the bucket's default key.
        case kms(keyID: String?)
    }

    package init(endpoint: String, region: String, bucket: String) {
        self.endpoint = endpoint
        self.region = region
        self.bucket = bucket
    }

    /// Whether entity tags of parts and objects are MD5s of their bytes and are compared.
    var tagsAreDigests: Bool {
        if case .kms = encryption { return false }
        return checksTags
    }

    /// Whether the digest of each part is needed.
    var needsDigests: Bool { tagsAreDigests || sendsContentMD5 }

    /// Size in bytes of the part with this number.
    ///
    /// For an upload of unknown length the size doubles repeatedly in the second half of the part numbers, so that they
    /// do not run out.
    func size(ofPart number: Int, base: Int64) -> Int64 {
        let half = maximumParts / 2
        guard !needsEqualParts, number > half else { return base }
        let doublings = (number - half - 1) / max(1, maximumParts / 20) + 1
        return min(base << Int64(min(doublings, 10)), Self.largestPart)
    }

    /// The size of the parts of an upload of this length.
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
