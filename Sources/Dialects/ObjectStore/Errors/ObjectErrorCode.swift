package import HTTPWire

/// Error codes with status and default message ("Error responses", Amazon S3 API Reference).
///
/// The last nine are not Amazon's.
package enum ObjectErrorCode: String, Sendable, CaseIterable {
    case accessDenied = "AccessDenied"
    case accessControlListNotSupported = "AccessControlListNotSupported"
    case accessForbidden = "AccessForbidden"
    case authorizationHeaderMalformed = "AuthorizationHeaderMalformed"
    case authorizationQueryParametersError = "AuthorizationQueryParametersError"
    case badDigest = "BadDigest"
    case badRequest = "BadRequest"
    case bucketAlreadyExists = "BucketAlreadyExists"
    case bucketAlreadyOwnedByYou = "BucketAlreadyOwnedByYou"
    case bucketNotEmpty = "BucketNotEmpty"
    case entityTooLarge = "EntityTooLarge"
    case entityTooSmall = "EntityTooSmall"
    case expiredToken = "ExpiredToken"
    case illegalLocationConstraint = "IllegalLocationConstraintException"
    case incompleteBody = "IncompleteBody"
    case internalError = "InternalError"
    case invalidAccessKeyID = "InvalidAccessKeyId"
    case invalidArgument = "InvalidArgument"
    case invalidBucketName = "InvalidBucketName"
    case invalidBucketOwner = "InvalidBucketOwnerAWSAccountID"
    case invalidChunkSize = "InvalidChunkSizeError"
    case invalidDigest = "InvalidDigest"
    case invalidPart = "InvalidPart"
    case invalidPartNumber = "InvalidPartNumber"
    case invalidPartOrder = "InvalidPartOrder"
    case invalidPolicyDocument = "InvalidPolicyDocument"
    case invalidRange = "InvalidRange"
    case invalidRequest = "InvalidRequest"
    case invalidStorageClass = "InvalidStorageClass"
    case invalidTag = "InvalidTag"
    case invalidToken = "InvalidToken"
    case invalidURI = "InvalidURI"
    case keyTooLong = "KeyTooLongError"
    case malformedPOSTRequest = "MalformedPOSTRequest"
    case malformedTrailer = "MalformedTrailerError"
    case malformedXML = "MalformedXML"
    case maxMessageLengthExceeded = "MaxMessageLengthExceeded"
    case metadataTooLarge = "MetadataTooLarge"
    case methodNotAllowed = "MethodNotAllowed"
    case missingContentLength = "MissingContentLength"
    case noEncryptionConfiguration = "ServerSideEncryptionConfigurationNotFoundError"
    case noObjectLockConfiguration = "ObjectLockConfigurationNotFoundError"
    case noMetadataConfiguration = "MetadataConfigurationNotFound"
    case noReplicationConfiguration = "ReplicationConfigurationNotFoundError"
    case noSuchBucket = "NoSuchBucket"
    case noSuchBucketPolicy = "NoSuchBucketPolicy"
    case noSuchConfiguration = "NoSuchConfiguration"
    case noSuchCORSConfiguration = "NoSuchCORSConfiguration"
    case noSuchKey = "NoSuchKey"
    case noSuchLifecycleConfiguration = "NoSuchLifecycleConfiguration"
    case noSuchPublicAccessBlock = "NoSuchPublicAccessBlockConfiguration"
    case noSuchTagSet = "NoSuchTagSet"
    case noSuchUpload = "NoSuchUpload"
    case noSuchWebsiteConfiguration = "NoSuchWebsiteConfiguration"
    case notImplemented = "NotImplemented"
    case notModified = "NotModified"
    case operationAborted = "OperationAborted"
    case preconditionFailed = "PreconditionFailed"
    case requestHeaderTooLarge = "RequestHeaderSectionTooLarge"
    case requestTimeTooSkewed = "RequestTimeTooSkewed"
    case requestTimeout = "RequestTimeout"
    case serviceUnavailable = "ServiceUnavailable"
    case signatureDoesNotMatch = "SignatureDoesNotMatch"
    case slowDown = "SlowDown"
    case userKeyMustBeSpecified = "UserKeyMustBeSpecified"
    case xAmzContentSHA256Mismatch = "XAmzContentSHA256Mismatch"
    case callbackFailed = "CallbackFailed"
    case contentTypeRefused = "ContentTypeRefused"
    case fileAlreadyExists = "FileAlreadyExists"
    case insufficientStorage = "InsufficientStorage"
    case missingArgument = "MissingArgument"
    case noSuchRefererConfiguration = "NoSuchRefererConfiguration"
    case noSuchReplicationRule = "NoSuchReplicationRule"
    case noSuchStyle = "NoSuchStyle"
    case noTransferAcceleration = "NoSuchTransferAccelerationConfiguration"
    case noUserDefinedLogFields = "NoSuchUserDefinedLogFieldsConfig"
    case objectNotAppendable = "ObjectNotAppendable"
    case positionNotEqualToLength = "PositionNotEqualToLength"
    case quotaExceeded = "QuotaExceeded"

    package var status: Status {
        switch self {
        case .callbackFailed: 203
        case .notModified: 304
        case .accessDenied, .accessForbidden, .invalidAccessKeyID, .invalidChunkSize, .requestTimeTooSkewed,
            .signatureDoesNotMatch, .contentTypeRefused, .quotaExceeded:
            403
        case .noSuchBucket, .noSuchCORSConfiguration, .noSuchKey, .noSuchLifecycleConfiguration, .noSuchUpload,
            .noEncryptionConfiguration, .noObjectLockConfiguration, .noReplicationConfiguration, .noSuchBucketPolicy,
            .noSuchConfiguration, .noSuchPublicAccessBlock, .noSuchRefererConfiguration, .noSuchTagSet,
            .noMetadataConfiguration, .noSuchReplicationRule, .noSuchStyle, .noSuchWebsiteConfiguration,
            .noTransferAcceleration, .noUserDefinedLogFields:
            404
        case .methodNotAllowed: 405
        case .bucketAlreadyExists, .bucketAlreadyOwnedByYou, .bucketNotEmpty, .fileAlreadyExists, .objectNotAppendable,
            .operationAborted, .positionNotEqualToLength:
            409
        case .missingContentLength: 411
        case .preconditionFailed: 412
        case .invalidPartNumber, .invalidRange: 416
        case .internalError: 500
        case .notImplemented: 501
        case .serviceUnavailable, .slowDown: 503
        case .insufficientStorage: 507
        case .accessControlListNotSupported, .authorizationHeaderMalformed, .authorizationQueryParametersError,
            .badDigest, .badRequest, .entityTooLarge, .entityTooSmall, .expiredToken, .illegalLocationConstraint,
            .incompleteBody,
            .invalidArgument, .invalidBucketName, .invalidBucketOwner, .invalidDigest, .invalidPart, .invalidPartOrder,
            .invalidPolicyDocument, .invalidRequest, .invalidStorageClass, .invalidTag, .invalidToken, .invalidURI,
            .keyTooLong, .malformedPOSTRequest, .malformedTrailer, .malformedXML, .maxMessageLengthExceeded,
            .metadataTooLarge, .missingArgument, .requestHeaderTooLarge, .requestTimeout, .userKeyMustBeSpecified,
            .xAmzContentSHA256Mismatch:
            400
        }
    }

    /// The default message, if there is nothing more specific.
    package var usualMessage: String {
        switch self {
        case .accessDenied: "Access Denied"
        case .accessControlListNotSupported: "Access control lists are not supported: leave them out."
        case .accessForbidden: "No rule of the bucket allows this request of a page from another origin."
        case .authorizationHeaderMalformed: "The authorization header is malformed."
        case .authorizationQueryParametersError: "The parameters of the signature in the query are invalid."
        case .badDigest: "The content does not match the digest in the request."
        case .badRequest: "An error occurred when parsing the HTTP request."
        case .bucketAlreadyExists: "The name of the bucket is taken."
        case .bucketAlreadyOwnedByYou: "The bucket already exists, and you own it."
        case .bucketNotEmpty: "The bucket to delete is not empty."
        case .entityTooLarge: "The object is larger than allowed."
        case .entityTooSmall: "The object, or a part before the last one, is smaller than allowed."
        case .expiredToken: "The provided token has expired."
        case .illegalLocationConstraint: "The location constraint is not the region of this endpoint."
        case .incompleteBody: "The request has fewer bytes than it declares."
        case .internalError: "An internal error occurred; try again."
        case .invalidAccessKeyID: "The access key id does not exist in our records."
        case .invalidArgument: "An argument is not valid."
        case .invalidBucketName: "The specified bucket is not valid."
        case .invalidBucketOwner: "The value of the expected bucket owner parameter must be an AWS account ID."
        case .invalidChunkSize: "Only the last chunk is allowed to be that small."
        case .invalidDigest: "The Content-MD5 is not the Base64 of 16 bytes."
        case .invalidPart: "A part was not found, or its entity tag or checksum differs."
        case .invalidPartNumber: "The object has no such part."
        case .invalidPartOrder: "The list of parts is not in ascending order of their numbers."
        case .invalidPolicyDocument: "The policy of the form is not valid."
        case .invalidRange: "The requested range is not satisfiable."
        case .invalidRequest: "The request is not valid."
        case .invalidStorageClass: "The storage class is not supported: leave it out, or use STANDARD."
        case .invalidTag: "A tag is not valid."
        case .invalidToken: "The provided token is malformed or otherwise invalid."
        case .invalidURI: "The URI cannot be parsed."
        case .keyTooLong: "The key is too long."
        case .malformedPOSTRequest: "The body of the POST request is not well-formed multipart/form-data."
        case .malformedTrailer: "The trailers are not those that the request announced."
        case .malformedXML: "The XML is not well-formed, or is not the expected document."
        case .maxMessageLengthExceeded: "The request is too large."
        case .metadataTooLarge: "The user metadata has more than 2048 bytes."
        case .methodNotAllowed: "The method is not allowed for this resource."
        case .missingContentLength: "The Content-Length header is required."
        case .noEncryptionConfiguration: "The server side encryption configuration was not found."
        case .noObjectLockConfiguration: "The bucket has no configuration of object lock."
        case .noMetadataConfiguration: "The metadata table configuration does not exist."
        case .noReplicationConfiguration: "The replication configuration was not found."
        case .noSuchBucket: "The specified bucket does not exist."
        case .noSuchBucketPolicy: "The bucket policy does not exist."
        case .noSuchConfiguration: "The specified configuration does not exist."
        case .noSuchCORSConfiguration: "The CORS configuration does not exist."
        case .noSuchKey: "The specified key does not exist."
        case .noSuchLifecycleConfiguration: "The lifecycle configuration does not exist."
        case .noSuchPublicAccessBlock: "The public access block configuration was not found."
        case .noSuchRefererConfiguration: "The referer configuration does not exist."
        case .noSuchTagSet: "The TagSet does not exist."
        case .noSuchUpload: "The upload does not exist: the id is not valid, or it was aborted or completed."
        case .noSuchWebsiteConfiguration: "The bucket has no website configuration."
        case .noSuchReplicationRule: "The bucket has no such replication rule."
        case .noSuchStyle: "The bucket has no such style."
        case .noUserDefinedLogFields: "The bucket logs no fields of its own."
        case .noTransferAcceleration: "Transfer acceleration is not configured for the bucket."
        case .notImplemented: "The request uses a feature that this server does not support: leave it out."
        case .notModified: "Not Modified"
        case .operationAborted: "A conflicting operation is in progress for this resource; try again."
        case .preconditionFailed: "At least one of the preconditions does not hold."
        case .requestHeaderTooLarge: "The header section of the request exceeds the maximum allowed size."
        case .requestTimeTooSkewed: "The time of the request differs too much from that of the server."
        case .requestTimeout: "No byte arrived for too long."
        case .serviceUnavailable: "The service is not available now; try again."
        case .signatureDoesNotMatch:
            "The signature does not match this request and the secret key; check the key and the signing method."
        case .slowDown: "Please reduce your request rate."
        case .userKeyMustBeSpecified: "The form must have a field `key` before the file."
        case .xAmzContentSHA256Mismatch: "The provided 'x-amz-content-sha256' header does not match what was computed."
        case .callbackFailed: "The object is stored, but the callback failed."
        case .contentTypeRefused: "The credentials do not allow objects of this media type."
        case .fileAlreadyExists: "The object you specified already exists and cannot be overwritten."
        case .insufficientStorage: "The storage has no room left."
        case .missingArgument: "An argument is missing."
        case .objectNotAppendable: "The object is not appendable: it was not made by appending."
        case .positionNotEqualToLength: "The position is not the length of the object."
        case .quotaExceeded: "The quota is exceeded."
        }
    }
}
