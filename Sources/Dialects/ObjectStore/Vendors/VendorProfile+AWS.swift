internal import UploadCore
internal import UploadModel

extension VendorProfile {
    /// Amazon S3 ("Amazon S3 multipart upload limits"; "User-defined object metadata", Amazon S3 User Guide).
    static let aws = VendorProfile(
        fields: .aws,
        capitalizesTags: false,
        hasCase: true,
        storageClass: "STANDARD",
        minimumPartSize: 5 << 20,
        maximumUserMetadata: S3ObjectHeaders.maximumUserMetadata,
        completesWithoutParts: false,
        copySource: .path,
        ranges: .http,
        directives: ["COPY": false, "REPLACE": true],
        keepsLeadingSlashes: true,
        needsLength: true,
        usualChecksum: .crc64nvme,
        reportsCRC64: false,
        reportsMD5: false,
        reportsObjectType: false,
        encodesMetadata: true,
        server: nil,
        reportsTagOfWhole: false,
        documents: Documents(
            namespace: "http://s3.amazonaws.com/doc/2006-03-01/",
            hasFractions: true,
            namesNextMarker: false,
            namesNextUpload: false,
            listsOwnersOfUploads: true,
            nextPartOfNone: "0",
            namesLocations: false,
            namesEndpoints: false,
            namesObjectTypes: false,
            unnamedRegion: "us-east-1",
            recreatesBuckets: false
        ),
        errors: Errors(
            codes: [:],
            statuses: [:],
            messages: [:],
            forbiddenOverwrite: .preconditionFailed,
            headFields: []
        )
    )
}
