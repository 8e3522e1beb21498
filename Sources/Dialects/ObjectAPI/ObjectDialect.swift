/// The three ways to speak to an object store; their requests are much alike, their names and signatures are not.
package enum ObjectDialect: String, Sendable, CaseIterable, Codable {
    /// Amazon's.
    case s3
    /// Alibaba Cloud's.
    case oss
    /// Tencent Cloud's.
    case cos
}

extension ObjectDialect {
    /// What the vendor's own header fields begin with.
    var fieldPrefix: String {
        switch self {
        case .s3: "x-amz-"
        case .oss: "x-oss-"
        case .cos: "x-cos-"
        }
    }

    /// An entity tag, as it is recorded, in quotes; in OSS its hexadecimal digits are in upper case.
    func quoted(_ entityTag: String) -> String { "\"\(self == .oss ? entityTag.uppercased() : entityTag)\"" }

    /// The only storage class that there is.
    var storageClass: String { self == .oss ? "Standard" : "STANDARD" }

    /// Bytes that each part but the last one must have ("Amazon S3 multipart upload limits"; "CompleteMultipartUpload", OSS
    /// documentation; "Complete Multipart Upload", COS documentation).
    var minimumPartSize: Int64 {
        switch self {
        case .s3: 5 << 20
        case .oss: 100 << 10
        case .cos: 1 << 20
        }
    }
}
