internal import HTTPWire
internal import ObjectAPI
internal import UploadCore

/// In whose words credentials and URLs for the object endpoint are told.
enum ObjectFormat: String, CaseIterable {
    case aws, aliyun, tencent

    var dialect: ObjectDialect {
        switch self {
        case .aws: .s3
        case .aliyun: .oss
        case .tencent: .cos
        }
    }
}

/// Where the bytes go that credentials and URLs are for.
enum ObjectMode: String, CaseIterable {
    /// To the object endpoint.
    case relay
    /// To the real cloud.
    case direct
}

/// What requests for credentials and those for URLs of the object endpoint say alike.
extension JSONFields {
    /// Empty for what is told as an error.
    mutating func bucket() -> String {
        guard let bucket = string("bucket", maximumLength: 63, isRequired: true) else { return "" }
        if !S3Names.isBucket(bucket) { reject("bucket", "must be the name of a bucket") }
        return bucket
    }

    /// One key, or all with a prefix; an empty one says that the whole bucket is meant.
    mutating func objectKeys() -> ObjectGrant.Keys {
        let only = string("key", maximumLength: S3Names.maximumKeyByteCount)
        let prefix = string("keyPrefix", maximumLength: S3Names.maximumKeyByteCount)
        switch (only, prefix) {
        case (let only?, nil):
            if only.isEmpty { reject("key", "must not be empty") }
            return .only(only)
        case (nil, let prefix?): return KeyPrefix(prefix).map { .within($0) } ?? .all
        case (nil, nil): reject("keyPrefix", "is required, or `key`; empty for all keys of the bucket")
        default: reject("key", "must not be there beside `keyPrefix`")
        }
        return .only("")
    }

    mutating func objectFormat() -> ObjectFormat { choice("format", otherwise: .aws) }

    mutating func objectMode() -> ObjectMode { choice("mode", otherwise: .relay) }

    private mutating func choice<Choice: RawRepresentable & CaseIterable>(
        _ name: String,
        otherwise standard: Choice
    ) -> Choice where Choice.RawValue == String {
        guard let text = string(name, maximumLength: 16) else { return standard }
        guard let choice = Choice(rawValue: text) else {
            reject(name, "must be one of \(Choice.allCases.map(\.rawValue).joined(separator: ", "))")
            return standard
        }
        return choice
    }
}

extension Problem {
    init(_ error: GrantTooLong) { self.init(422, "grant_too_long", error.message) }
}
