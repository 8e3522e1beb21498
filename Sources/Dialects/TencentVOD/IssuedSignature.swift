/// A signature, and what the app may want to know about it; encodes as the answer of the REST API.
package struct IssuedSignature: Sendable, Equatable, Encodable {
    /// What the app hands to the upload SDK.
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
