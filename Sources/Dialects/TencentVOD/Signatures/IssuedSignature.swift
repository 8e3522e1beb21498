/// A signature and its parameters; encodes as the response of the REST API.
package struct IssuedSignature: Sendable, Equatable, Encodable {
    /// For the upload SDK.
    package let signature: String
    package let secretID: String
    /// Unix seconds.
    package let currentTimeStamp: Int64
    /// Unix seconds.
    package let expireTime: Int64
    package let random: UInt32

    private enum CodingKeys: String, CodingKey {
        case signature, currentTimeStamp, expireTime, random
        case secretID = "secretId"
    }
}
