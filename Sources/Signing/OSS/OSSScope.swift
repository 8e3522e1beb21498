internal import Digests

/// The scope of a signing key of OSS version 4: one day and one region.
package struct OSSScope: Sendable, Hashable {
    /// `YYYYMMDD`, UTC.
    package let day: String
    package let region: String

    static let service = "oss"
    static let terminator = "aliyun_v4_request"

    /// The credential scope.
    package var text: String { "\(day)/\(region)/\(Self.service)/\(Self.terminator)" }

    func key(_ secret: String) -> HMACKey {
        SigningKey.derive(from: "aliyun_v4\(secret)", over: [day, region, Self.service, Self.terminator])
    }

    /// Parses a credential, `access key/day/region/oss/aliyun_v4_request`.
    static func read(
        _ credential: String
    ) throws(RequestSignatureFailure) -> (accessKeyID: String, scope: OSSScope) {
        let (accessKeyID, parts) = try AuthorizationParts.credential(credential, count: 4)
        guard parts[3] == terminator else { throw .wrongScope }
        guard parts[2] == service else { throw .wrongService }
        return (accessKeyID, OSSScope(day: parts[0], region: parts[1]))
    }
}
