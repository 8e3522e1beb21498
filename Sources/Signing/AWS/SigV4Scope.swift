/// The scope of a signing key: one day, one region, one service.
package struct SigV4Scope: Sendable, Hashable {
    /// `YYYYMMDD`, UTC.
    package let day: String
    package let region: String
    package let service: String

    static let terminator = "aws4_request"

    /// The credential scope.
    package var text: String { "\(day)/\(region)/\(service)/\(Self.terminator)" }
}
