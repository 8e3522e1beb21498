/// A request method (RFC 9110 §9); case-sensitive.
package struct HTTPMethod: Hashable, Sendable, RawRepresentable, CustomStringConvertible {
    package let rawValue: String

    package init(rawValue: String) { self.rawValue = rawValue }

    package var description: String { rawValue }

    package static let get = HTTPMethod(rawValue: "GET")
    package static let head = HTTPMethod(rawValue: "HEAD")
    package static let post = HTTPMethod(rawValue: "POST")
    package static let put = HTTPMethod(rawValue: "PUT")
    package static let patch = HTTPMethod(rawValue: "PATCH")
    package static let delete = HTTPMethod(rawValue: "DELETE")
    package static let options = HTTPMethod(rawValue: "OPTIONS")
}

/// The supported versions of HTTP/1.
package enum HTTPVersion: Sendable, Equatable {
    case http1_0
    case http1_1
}
