/// The three ways to speak to an object store; their requests are much alike, their names and signatures are not.
package enum ObjectDialect: String, Sendable, CaseIterable, Codable {
    /// Amazon's.
    case s3
    /// Alibaba Cloud's.
    case oss
    /// Tencent Cloud's.
    case cos
}
