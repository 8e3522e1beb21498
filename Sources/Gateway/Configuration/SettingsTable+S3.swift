/// Settings of the store that bytes go to.
extension SettingsTable {
    static let s3: [Setting] = [
        Setting(
            "s3.endpoint",
            \.s3.endpoint,
            optional: .origin,
            "The store; without it, that of AWS in the region."
        ),
        Setting("s3.bucket", \.s3.bucket, optional: .bucket, "Where objects are kept."),
        Setting(
            "s3.otherBuckets",
            \.s3.otherBuckets,
            .buckets,
            "Further buckets, in which uploads are kept whose token or creation names one of them."
        ),
        Setting("s3.region", \.s3.region, .visible(minimum: 1), "Region of the store, as it stands in signatures."),
        Setting(
            "s3.pathStyle",
            \.s3.isPathStyle,
            .flag,
            "Names the bucket in the path instead of the host name, as most stores want that are not clouds."
        ),
        Setting("s3.createBucket", \.s3.createsBucket, .flag, "Makes the bucket at the start if it is not there."),
        Setting(
            "s3.accessKeyId",
            \.s3.accessKeyID,
            optional: .visible(minimum: 1),
            "Access key; without one, credentials come from the environment, files or the machine, as in AWS's tools."
        ),
        Setting("s3.secretAccessKey", \.s3.secretAccessKey, secret: .visible(minimum: 1), "Its secret."),
        Setting(
            "s3.key",
            \.s3.key,
            .keyTemplate,
            "How objects are named: {id}, and also {subject}, {yyyy}, {mm}, {dd}, {name} and {ext}."
        ),
        Setting(
            "s3.sidePrefix",
            \.s3.sidePrefix,
            .keyPrefix,
            "Before the names of objects that hold bytes of unfinished uploads; nothing else may be there."
        ),
        Setting("s3.storageClass", \.s3.storageClass, optional: .visible(minimum: 1), "Storage class of objects."),
        Setting("s3.encryption", \.s3.encryption, .choice, "How the store is told to encrypt objects."),
        Setting(
            "s3.encryptionKey",
            \.s3.encryptionKey,
            optional: .visible(minimum: 1),
            "Id of the key with which it does (kms); without it, that of the bucket."
        ),
        Setting(
            "s3.partSize",
            \.s3.partSize,
            .bytes((5 << 20)...(1 << 30)),
            "Size of parts; larger where an upload would have too many of them."
        ),
        Setting(
            "s3.maximumParts",
            \.s3.maximumParts,
            .count(100...10_000),
            "Most parts of an object that the store takes."
        ),
        Setting(
            "s3.equalParts",
            \.s3.needsEqualParts,
            .flag,
            "All parts but the last have the same size, as Cloudflare R2 wants."
        ),
        Setting(
            "s3.checkTags",
            \.s3.checksTags,
            .flag,
            "Compares the entity tags of parts with the MD5 of what was sent; not for a store whose tags are something else."
        ),
        Setting(
            "s3.contentMD5",
            \.s3.sendsContentMD5,
            .flag,
            "Sends the checksum header Content-MD5 with every part and object, as buckets with Object Lock want; parts leave when they are whole."
        ),
        Setting(
            "s3.parallelParts",
            \.s3.parallelParts,
            .count(1...64),
            "Parts of one upload that are sent at the same time."
        ),
        Setting(
            "s3.memory",
            \.s3.memory,
            .bytes((16 << 20)...(1 << 40)),
            "Memory for bytes that the store has not confirmed, of all uploads together."
        ),
        Setting(
            "s3.spool",
            \.s3.spool,
            .bytes(0...(1 << 50)),
            "Room on disk for bytes that have none in memory; 0 lets clients wait instead."
        ),
        Setting(
            "s3.spoolDir",
            \.s3.spoolDirectory,
            optional: .path,
            "Where they are; without it, spool in the data directory."
        ),
        Setting(
            "s3.retryTime",
            \.s3.retryTime,
            .duration(.seconds(1) ... .seconds(3600)),
            "How long a failed request to the store is tried again before the client is told."
        ),
        Setting(
            "s3.stallTimeout",
            \.s3.stallTimeout,
            .duration(.seconds(1) ... .seconds(3600)),
            "Without a byte to or from the store in a request, which is then tried again; in whole seconds."
        ),
        Setting(
            "s3.completionWait",
            \.s3.completionWait,
            .duration(.milliseconds(100) ... .seconds(3600)),
            "How long a client waits while the store puts parts together, before it is answered that all its bytes are there."
        ),
        Setting(
            "s3.redirectFor",
            \.s3.redirectFor,
            .duration(.seconds(1) ... .seconds(604_800), zero: "no redirect: the bytes pass through"),
            "Downloads are redirected to a URL of the store that is valid so long."
        ),
        Setting(
            "s3.proxy",
            \.s3.proxy,
            secret: .proxy,
            "http or https proxy through which the store is reached."
        ),
        Setting(
            "s3.authorities",
            \.s3.authorities,
            optional: .path,
            "PEM file of the certificate authorities that are trusted, instead of those of the system."
        ),
    ]
}
