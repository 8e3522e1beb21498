/// The address of a cloud service.
package struct CloudEndpoint: Sendable, Equatable {
    /// `https://host[:port]`, without the default port.
    package let origin: String

    /// - Parameter origin: `https://host[:port]`, in lower case, without the default port.
    package init(origin: String) { self.origin = origin }

    /// The value of the signed header `Host`.
    var host: String { origin.firstRange(of: "://").map { String(origin[$0.upperBound...]) } ?? origin }
}
