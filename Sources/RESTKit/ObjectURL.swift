internal import Bytes
package import HTTPWire

/// How clients reach the object endpoint, for signed URLs.
package struct ObjectURL: Sendable {
    /// `https://host[:port]`, if it is configured.
    package let configured: String?
    /// The public URL of the gateway.
    package let gateway: PublicURL
    /// Port of the endpoint; `nil` if this process has none.
    package let port: UInt16?

    package init(configured: String?, gateway: PublicURL, port: UInt16?) {
        self.configured = configured
        self.gateway = gateway
        self.port = port
    }

    /// `https://host[:port]`, without the default port, because clients omit it from the signed `Host`.
    ///
    /// If none is configured, it is the host by which the request reached the gateway, with the endpoint's port.
    ///
    /// - Throws: `Problem` 403 if there is no endpoint.
    package func origin(for request: Request) throws(Problem) -> String {
        if let configured { return Self.origin(of: configured, port: nil) }
        guard let port else {
            throw Problem(403, "forbidden", "this server has no object endpoint (object.listen, object.publicURL)")
        }
        return Self.origin(of: gateway.base(for: request), port: String(port))
    }

    /// Scheme and host of a URL in lower case, with the port replaced unless `port` is `nil`.
    package static func origin(of url: String, port: String?) -> String {
        guard let mark = url.firstRange(of: "://") else { return url }
        let scheme = url[..<mark.lowerBound].lowercasedASCII()
        let authority = url[mark.upperBound...].prefix { $0 != "/" }.lowercasedASCII()
        var host = authority[...]
        var own: String?
        // Colons inside brackets belong to an IPv6 address.
        if let colon = authority.lastIndex(of: ":"), !authority[colon...].contains("]") {
            host = authority[..<colon]
            own = String(authority[authority.index(after: colon)...])
        }
        let wanted = port ?? own
        guard let wanted, !wanted.isEmpty, wanted != (scheme == "https" ? "443" : "80") else {
            return "\(scheme)://\(host)"
        }
        return "\(scheme)://\(host):\(wanted)"
    }
}
