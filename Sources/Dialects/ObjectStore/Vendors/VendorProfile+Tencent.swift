internal import HTTPWire

extension VendorProfile {
    /// Tencent Cloud COS ("Complete Multipart Upload", "Error codes", COS documentation).
    static let tencent = VendorProfile(
        fields: .tencent,
        capitalizesTags: false,
        hasCase: false,
        storageClass: "STANDARD",
        minimumPartSize: 1 << 20,
        maximumUserMetadata: 2 << 10,
        completesWithoutParts: false,
        copySource: .host,
        ranges: .http,
        directives: ["COPY": false, "REPLACE": true, "REPLACED": true],
        // Keys must not begin with a slash (436/13324); the SDK for PHP sends the path of a VOD upload as it is.
        keepsLeadingSlashes: false,
        needsLength: false,
        usualChecksum: nil,
        reportsCRC64: true,
        reportsMD5: false,
        reportsObjectType: true,
        encodesMetadata: false,
        // The SDK for Android corrects its clock only by the date of such a response.
        server: "tencent-cos",
        reportsTagOfWhole: true,
        documents: Documents(
            namespace: nil,
            hasFractions: false,
            namesNextMarker: true,
            namesNextUpload: false,
            listsOwnersOfUploads: true,
            nextPartOfNone: nil,
            namesLocations: true,
            namesEndpoints: false,
            namesObjectTypes: false,
            unnamedRegion: nil,
            recreatesBuckets: false
        ),
        errors: Errors(
            codes: [
                .contentTypeRefused: "AccessDenied", .expiredToken: "AccessDenied",
                .maxMessageLengthExceeded: "MalformedXML", .invalidRequest: "InvalidArgument",
                .accessControlListNotSupported: "InvalidArgument", .metadataTooLarge: "InvalidArgument",
                // COS clients know no other code for unknown credentials.
                .invalidToken: "InvalidAccessKeyId", .noSuchBucketPolicy: "NoSuchPolicy",
                .noEncryptionConfiguration: "NoSuchEncryptionConfiguration",
                // Spelt so by the SDK for Node.js, which takes it for an empty configuration.
                .noReplicationConfiguration: "ReplicationConfigurationnotFoundError",
            ],
            statuses: [
                .expiredToken: 403, .invalidToken: 403,
                // Mobile clients take every 403 for expired credentials and request new ones forever.
                .quotaExceeded: 400,
            ],
            // COS clients recognise expired credentials by this text.
            messages: [.expiredToken: "Request has expired"],
            forbiddenOverwrite: .preconditionFailed,
            headFields: []
        )
    )
}
