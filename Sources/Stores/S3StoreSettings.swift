internal import GatewayKit
internal import HTTPClient
package import S3Storage
package import SettingsKit

/// The store; see `S3Settings`.
package struct S3StoreSettings: SettingsSection {
    /// `http(s)://host[:port]`; `nil` uses AWS's endpoint for the region.
    package var endpoint: String?
    package var bucket: String?
    /// Additional buckets, for tokens that name one.
    package var otherBuckets: [String] = []
    package var region = "us-east-1"
    package var isPathStyle = false
    package var createsBucket = false
    package var accessKeyID: String?
    /// Without a key pair, credentials are searched for in the same places as AWS's own tools do.
    package var secretAccessKey: Secret<String>?
    package var key = KeyTemplate.default
    package var tailPrefix = ".sluice/"
    package var storageClass: String?
    package var encryption = Encryption.none
    package var encryptionKey: String?
    /// Bytes.
    package var partSize: Int64 = 8 << 20
    package var maximumParts = 10_000
    package var needsEqualParts = false
    package var checksTags = true
    package var sendsContentMD5 = false
    package var parallelParts = 4
    /// Bytes in memory, for all uploads together.
    package var memory: Int64 = 128 << 20
    /// Bytes in files, for all uploads together.
    package var spool: Int64 = 1 << 30
    /// `nil` uses `spool` in the data directory.
    package var spoolDirectory: String?
    package var retryTime = Duration.seconds(30)
    package var stallTimeout = Duration.seconds(20)
    package var completionWait = Duration.seconds(20)
    /// Validity of the store URLs that downloads are redirected to; `nil` passes the bytes through.
    package var redirectFor: Duration?
    package var proxy: Secret<String>?
    /// PEM file; `nil` uses the system's authorities.
    package var authorities: String?

    package enum Encryption: String, Sendable, CaseIterable {
        case none
        /// With keys of the store (SSE-S3).
        case aes256
        /// With a key of AWS KMS.
        case kms
    }

    package init() {}

    package static let table: [Setting] = [
        setting(
            "s3.endpoint",
            \.endpoint,
            optional: .origin,
            "URL of the store; if not set, that of AWS in the region."
        ),
        setting("s3.bucket", \.bucket, optional: .bucket, "Bucket for objects."),
        setting(
            "s3.otherBuckets",
            \.otherBuckets,
            .buckets,
            "Further buckets, for uploads whose token or creation names one of them."
        ),
        setting("s3.region", \.region, .visible(minimum: 1), "Region of the store, as in signatures."),
        setting(
            "s3.pathStyle",
            \.isPathStyle,
            .flag,
            "Whether to name the bucket in the path instead of the host name, as most stores outside the clouds require."
        ),
        setting(
            "s3.createBucket",
            \.createsBucket,
            .flag,
            "Whether to create the bucket at the start if it is missing."
        ),
        setting(
            "s3.accessKeyId",
            \.accessKeyID,
            optional: .visible(minimum: 1),
            "Access key; if not set, credentials come from the environment, files or the machine, as in AWS's tools."
        ),
        setting("s3.secretAccessKey", \.secretAccessKey, secret: .visible(minimum: 1), "Its secret."),
        setting(
            "s3.key",
            \.key,
            .keyTemplate,
            "Template for the keys of objects, with {id} and, if wanted, {subject}, {yyyy}, {mm}, {dd}, {name} and {ext}."
        ),
        setting(
            "s3.tailPrefix",
            \.tailPrefix,
            .keyPrefix,
            "Prefix of objects that hold bytes of unfinished uploads; nothing else may be stored there."
        ),
        setting("s3.storageClass", \.storageClass, optional: .visible(minimum: 1), "Storage class of objects."),
        setting("s3.encryption", \.encryption, .choice, "Encryption that is requested from the store for objects."),
        setting(
            "s3.encryptionKey",
            \.encryptionKey,
            optional: .visible(minimum: 1),
            "Id of the encryption key (kms); if not set, that of the bucket."
        ),
        setting(
            "s3.partSize",
            \.partSize,
            .bytes((5 << 20)...(1 << 30)),
            "Size of parts; larger for an upload that would have too many of them."
        ),
        setting(
            "s3.maximumParts",
            \.maximumParts,
            .count(100...10_000),
            "Maximum number of parts of an object that the store accepts."
        ),
        setting(
            "s3.equalParts",
            \.needsEqualParts,
            .flag,
            "Whether all parts but the last must have the same size, as Cloudflare R2 requires."
        ),
        setting(
            "s3.checkTags",
            \.checksTags,
            .flag,
            "Whether to compare the entity tags of parts with the MD5 of the sent bytes; not for a store whose tags are something else."
        ),
        setting(
            "s3.contentMD5",
            \.sendsContentMD5,
            .flag,
            "Whether to send the checksum header Content-MD5 with every part and object, as buckets with Object Lock require; parts are then sent only when they are complete."
        ),
        setting(
            "s3.parallelParts",
            \.parallelParts,
            .count(1...64),
            "Maximum number of parts of one upload that are sent at the same time."
        ),
        setting(
            "s3.memory",
            \.memory,
            .bytes((16 << 20)...(1 << 40)),
            "Memory for bytes that the store has not confirmed, for all uploads together."
        ),
        setting(
            "s3.spool",
            \.spool,
            .bytes(0...(1 << 50)),
            "Disk space for bytes that do not fit into s3.memory; with 0, clients wait instead."
        ),
        setting(
            "s3.spoolDir",
            \.spoolDirectory,
            optional: .path,
            "Directory for these bytes; if not set, spool in the data directory."
        ),
        setting(
            "s3.retryTime",
            \.retryTime,
            .duration(.seconds(1) ... .seconds(3600)),
            "How long a failed request to the store is retried before the client gets an error."
        ),
        setting(
            "s3.stallTimeout",
            \.stallTimeout,
            .duration(.seconds(1) ... .seconds(3600)),
            "Maximum time without a byte to or from the store in a request, which is then retried; in whole seconds."
        ),
        setting(
            "s3.completionWait",
            \.completionWait,
            .duration(.milliseconds(100) ... .seconds(3600)),
            "How long a client waits while the store combines parts, before the response says that all bytes are stored."
        ),
        setting(
            "s3.redirectFor",
            \.redirectFor,
            .duration(.seconds(1) ... .seconds(604_800), zero: "no redirect: the bytes pass through"),
            "Validity of the store's URLs to which downloads are redirected."
        ),
        setting(
            "s3.proxy",
            \.proxy,
            secret: .proxy,
            "http or https proxy through which the store is reached."
        ),
        setting(
            "s3.authorities",
            \.authorities,
            optional: .path,
            "PEM file of the certificate authorities that are trusted, instead of those of the system."
        ),
    ]

    package static func check(_ settings: Settings, _ demands: inout SettingsDemands) {
        let s3 = settings.s3
        demands.pair("s3.accessKeyId", s3.accessKeyID != nil, "s3.secretAccessKey", s3.secretAccessKey != nil)
        demands.demand(
            settings.general.storage != .s3 || s3.bucket != nil,
            "s3.bucket",
            because: "storage",
            "must be set, because storage is s3"
        )
        // At least two whole parts: one being sent, and one being received.
        demands.demand(
            s3.memory >= 2 * s3.partSize,
            "s3.memory",
            because: "s3.memory",
            "must be at least twice s3.partSize (\(ByteCountText.format(s3.partSize)))"
        )
    }
}

extension Settings {
    package var s3: S3StoreSettings {
        get { self[S3StoreSettings.self] }
        set { self[S3StoreSettings.self] = newValue }
    }
}

extension SettingFormat where Value == KeyTemplate {
    package static let keyTemplate = SettingFormat(
        allowed: "text with {id} in it, and not /, . or .. as a segment",
        parse: { try? KeyTemplate($0) },
        render: { $0.text }
    )
}

extension SettingFormat where Value == String {
    package static let proxy = SettingFormat(
        allowed: "an http or https URL such as http://user:password@proxy.example.com:3128",
        parse: { WebProxy($0) == nil ? nil : $0 },
        render: { $0 }
    )
}
