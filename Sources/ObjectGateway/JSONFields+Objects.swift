internal import HTTPWire
package import ObjectGrants
internal import ObjectStore
package import RESTKit
internal import Signing
internal import UploadModel

/// Where clients with the minted credentials and URLs upload to.
enum ObjectMode: String, CaseIterable {
    /// To the object endpoint.
    case relay
    /// To the real cloud.
    case direct
}

/// Members shared by requests for credentials and for URLs of the object endpoint.
extension JSONFields {
    /// Empty if it was reported as an error.
    mutating func bucket() -> String {
        guard let bucket = string("bucket", maximumLength: 63, isRequired: true) else { return "" }
        if !S3Names.isBucket(bucket) { reject("bucket", "must be the name of a bucket") }
        return bucket
    }

    /// One key, or all with a prefix; an empty prefix means the whole bucket.
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

    /// The vendor format of credentials and URLs.
    mutating func objectFormat() -> Vendor { choice("format", otherwise: .aws) }

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
    package init(_ error: GrantTooLong) { self.init(422, "grant_too_long", error.message) }
}
