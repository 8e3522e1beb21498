internal import HTTPWire

extension VendorProfile {
    /// Alibaba Cloud OSS ("CompleteMultipartUpload", "PutObject", "Error codes", OSS documentation).
    static let aliyun = VendorProfile(
        fields: .aliyun,
        capitalizesTags: true,
        hasCase: false,
        storageClass: "Standard",
        minimumPartSize: 100 << 10,
        maximumUserMetadata: 8 << 10,
        // SDKs of OSS make parts of an empty file: none.
        completesWithoutParts: true,
        copySource: .formEncodedPath,
        ranges: .firstWithin,
        directives: ["COPY": false, "REPLACE": true, "REPLACED": true],
        keepsLeadingSlashes: true,
        needsLength: false,
        usualChecksum: nil,
        reportsCRC64: true,
        reportsMD5: true,
        reportsObjectType: true,
        encodesMetadata: false,
        server: nil,
        reportsTagOfWhole: true,
        documents: Documents(
            namespace: nil,
            hasFractions: false,
            namesNextMarker: true,
            namesNextUpload: true,
            // The SDK for Swift drops an upload with them.
            listsOwnersOfUploads: false,
            nextPartOfNone: "",
            namesLocations: true,
            namesEndpoints: true,
            namesObjectTypes: true,
            unnamedRegion: nil,
            recreatesBuckets: true
        ),
        errors: Errors(
            codes: [
                .expiredToken: "SecurityTokenExpired", .invalidToken: "InvalidSecurityToken",
                .keyTooLong: "InvalidObjectName", .contentTypeRefused: "InvalidArgument", .badDigest: "InvalidDigest",
                .maxMessageLengthExceeded: "MalformedXML", .invalidStorageClass: "InvalidArgument",
                .invalidRequest: "InvalidArgument", .invalidURI: "InvalidArgument",
                .metadataTooLarge: "InvalidArgument",
                .accessControlListNotSupported: "InvalidArgument",
                .noSuchLifecycleConfiguration: "NoSuchLifecycle", .noObjectLockConfiguration: "NoSuchWORMConfiguration",
                .noEncryptionConfiguration: "NoSuchServerSideEncryptionRule",
                .noReplicationConfiguration: "NoSuchReplicationConfiguration", .noSuchConfiguration: "NoSuchInventory",
            ],
            statuses: [
                .expiredToken: 403, .invalidToken: 403, .notImplemented: 400,
                // Mobile clients take every 403 for expired credentials and request new ones forever.
                .quotaExceeded: 400, .contentTypeRefused: 400,
            ],
            messages: [.expiredToken: "The security token you provided has expired."],
            forbiddenOverwrite: .fileAlreadyExists,
            // Another name for each generation of the SDKs.
            headFields: ["x-oss-err", "x-oss-error"]
        )
    )
}
