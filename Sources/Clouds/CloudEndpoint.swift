/// Where a service of a cloud is reached.
package struct CloudEndpoint: Sendable, Equatable {
    /// `https://host[:port]`, without a port that goes without saying.
    package let origin: String

    /// - Parameter origin: `https://host[:port]`, in lower case, without a port that goes without saying.
    package init(origin: String) { self.origin = origin }

    /// As it stands in the header `Host`, and is signed.
    var host: String { origin.firstRange(of: "://").map { String(origin[$0.upperBound...]) } ?? origin }
}
