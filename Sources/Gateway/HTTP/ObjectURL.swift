internal import HTTPWire

/// How clients reach the object endpoint, for the URLs that are signed for them.
struct ObjectURL: Sendable {
    /// `https://host[:port]`, if it is configured.
    let configured: String?
    /// How they reach the gateway.
    let gateway: PublicURL
    /// Where the endpoint listens; `nil` if this process has none.
    let port: UInt16?

    /// `https://host[:port]`, without a port that goes without saying: clients leave it out of `Host`, which is signed.
    ///
    /// Without a configured one it is the host by which the request reached the gateway, with the port of the endpoint.
    ///
    /// - Throws: `Problem` 403 if there is no endpoint.
    func origin(for request: Request) throws(Problem) -> String {
        if let configured { return Self.origin(of: configured, port: nil) }
        guard let port else {
            throw Problem(403, "forbidden", "there is no object endpoint here (object.listen, object.publicURL)")
        }
        return Self.origin(of: gateway.base(for: request), port: String(port))
    }

    /// Scheme and host of a URL in lower case, with another port unless it is `nil`.
    static func origin(of url: String, port: String?) -> String {
        guard let mark = url.firstRange(of: "://") else { return url }
        let scheme = url[..<mark.lowerBound].lowercased()
        let authority = url[mark.upperBound...].prefix { $0 != "/" }.lowercased()
        var host = authority[...]
        var own: String?
        // An IPv6 address has its colons inside brackets.
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
