package import Signing

/// What a presigned URL does with one object; its form is the same in all three dialects.
package enum PresignedOperation: Sendable, Equatable {
    case getObject
    case headObject
    case putObject
    case deleteObject
    case createMultipartUpload
    case uploadPart(Int, uploadID: String)
    case listParts(uploadID: String)
    /// With the document that names the parts.
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

/// A request that somebody else may send.
package struct PresignedRequest: Sendable, Equatable {
    package let method: String
    package let url: String
    /// What must be sent with it as it stands here.
    package let headers: [SigningField]
}

/// A form that somebody else may send: `multipart/form-data` with these fields, and behind them the file, by the name `file`.
package struct PresignedForm: Sendable, Equatable {
    package let url: String
    package let fields: [SigningField]
}
