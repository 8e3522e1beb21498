package import ObjectGrants
package import Signing

/// The operation of a presigned URL on one object, independent of the vendor.
package enum PresignedOperation: Sendable, Equatable {
    case getObject
    case headObject
    case putObject
    case deleteObject
    case createMultipartUpload
    case uploadPart(Int, uploadID: String)
    case listParts(uploadID: String)
    /// With the document that lists the parts.
    case completeMultipartUpload(uploadID: String)
    case abortMultipartUpload(uploadID: String)

    package var method: String {
        switch self {
        case .getObject, .listParts: "GET"
        case .headObject: "HEAD"
        case .putObject, .uploadPart: "PUT"
        case .deleteObject, .abortMultipartUpload: "DELETE"
        case .createMultipartUpload, .completeMultipartUpload: "POST"
        }
    }

    package var action: ObjectAction {
        switch self {
        case .getObject: .getObject
        case .headObject: .headObject
        case .putObject: .putObject
        case .deleteObject: .deleteObject
        case .createMultipartUpload: .createMultipartUpload
        case .uploadPart: .uploadPart
        case .listParts: .listParts
        case .completeMultipartUpload: .completeMultipartUpload
        case .abortMultipartUpload: .abortMultipartUpload
        }
    }

    var query: [SigningField] {
        switch self {
        case .getObject, .headObject, .putObject, .deleteObject: []
        case .createMultipartUpload: [SigningField("uploads", "")]
        case .uploadPart(let number, let id):
            [SigningField("partNumber", String(number)), SigningField("uploadId", id)]
        case .listParts(let id), .completeMultipartUpload(let id), .abortMultipartUpload(let id):
            [SigningField("uploadId", id)]
        }
    }
}

/// A presigned request.
package struct PresignedRequest: Sendable, Equatable {
    package let method: String
    package let url: String
    /// Must be sent unchanged with the request.
    package let headers: [SigningField]
}

/// A signed form: `multipart/form-data` with these fields, followed by the file as `file`.
package struct PresignedForm: Sendable, Equatable {
    package let url: String
    package let fields: [SigningField]
}
