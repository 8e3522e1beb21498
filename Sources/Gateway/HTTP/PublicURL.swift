internal import HTTPWire
internal import Transport

/// How clients reach this server, for the absolute URLs in its answers.
struct PublicURL: Sendable {
    /// `https://host/prefix` without a trailing slash, if it is configured.
    let configured: String?
    let trustedProxies: [CIDR]

    /// Scheme and host of the URL that the client of `request` used, and the configured prefix.
    ///
    /// Forwarding fields count only if the peer is a proxy that the configuration trusts.
    func base(for request: Request) -> String {
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

    /// Whether a peer is a proxy that is trusted.
    func trusts(_ address: String) -> Bool { trustedProxies.contains { $0.contains(address) } }
}
