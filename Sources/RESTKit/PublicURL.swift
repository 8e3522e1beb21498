package import HTTPWire
package import Transport

/// How clients reach this server, for the absolute URLs in its responses.
package struct PublicURL: Sendable {
    /// `https://host/prefix` without a trailing slash, if it is configured.
    package let configured: String?
    package let trustedProxies: [CIDR]

    package init(configured: String?, trustedProxies: [CIDR]) {
        self.configured = configured
        self.trustedProxies = trustedProxies
    }

    /// Scheme and host of the URL that the client used, with the configured prefix.
    ///
    /// Forwarding fields count only if the peer is a trusted proxy.
    package func base(for request: Request) -> String {
        if let configured { return configured }
        var scheme = request.isEncrypted ? "https" : "http"
        var host = request.head.target.authority ?? request.head.fields["Host"] ?? "localhost"
        if trusts(request.peerAddress) {
            let forwarded = ForwardedHeaders(request.head.fields)
            scheme = forwarded.scheme ?? scheme
            host = forwarded.host ?? host
        }
        return scheme + "://" + host
    }

    /// Whether a peer is a trusted proxy.
    package func trusts(_ address: String) -> Bool { trustedProxies.contains { $0.contains(address) } }
}
