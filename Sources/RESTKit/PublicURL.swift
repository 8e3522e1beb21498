package import HTTPWire
package import Transport

/// How clients reach this server, for the absolute URLs in its responses.
package struct PublicURL: Sendable {
    /// `https://host/prefix` without a trailing slash, if it is configured.
    package let configured: String?
    package let trustedProxies: PeerList
    /// What follows the host of the URL that a client used, if none is configured; may be empty.
    private let path: String

    /// - Parameters:
    ///   - configured: `http(s)://host[:port][/prefix]`. Without a prefix, the base path is its path.
    ///   - basePath: Where the gateway is served; `nil` for the root.
    ///   - trustedProxies: Peers whose forwarding fields count.
    package init(configured: String?, basePath: BasePath? = nil, trustedProxies: PeerList) {
        path = basePath?.description ?? ""
        let hasPath = configured.map { $0.split(separator: "/").count > 2 } ?? false
        self.configured = hasPath ? configured : configured.map { [path] in $0 + path }
        self.trustedProxies = trustedProxies
    }

    /// Whether the settings say how clients reach this server.
    package var isSet: Bool { configured != nil || !path.isEmpty }

    /// Scheme, host and path prefix of the URL that the client used.
    ///
    /// Forwarding fields count only if the peer is a trusted proxy. `X-Forwarded-Prefix` never counts: no standard defines it, and
    /// many proxies pass on what a client claims there.
    package func base(for request: Request) -> String {
        if let configured { return configured }
        var scheme = request.isEncrypted ? "https" : "http"
        var host = request.head.target.authority ?? request.head.fields["Host"] ?? "localhost"
        if trusts(request.peerAddress) {
            let forwarded = ForwardedHeaders(request.head.fields, isTrusted: trusts)
            scheme = forwarded.scheme ?? scheme
            host = forwarded.host ?? host
        }
        return path.isEmpty ? scheme + "://" + host : scheme + "://" + host + path
    }

    /// A request with the address of its client, which a trusted proxy knows.
    package func naming(_ request: Request) -> Request {
        guard trusts(request.peerAddress),
            let client = ForwardedHeaders(request.head.fields, isTrusted: trusts).client
        else { return request }
        var request = request
        request.clientAddress = client
        return request
    }

    /// Whether a trusted proxy passes on a request with a list of clients that has no address of this one, such as `unknown`.
    package func hidesClient(of request: Request) -> Bool {
        request.clientAddress == request.peerAddress && trusts(request.peerAddress)
            && ForwardedHeaders(request.head.fields, isTrusted: trusts).hidesClient
    }

    /// Whether a peer is a trusted proxy.
    package func trusts(_ address: String) -> Bool { trustedProxies.contains(address) }
}

/// Tells a handler, and the log, who the clients behind trusted proxies are.
package struct ClientNamingHandler: RequestHandler {
    private let handler: any RequestHandler
    private let publicURL: PublicURL

    package init(_ handler: any RequestHandler, _ publicURL: PublicURL) {
        self.handler = handler
        self.publicURL = publicURL
    }

    package func respond(to request: Request) async -> Response {
        // Without proxies it costs nothing.
        if publicURL.trustedProxies.isEmpty { return await handler.respond(to: request) }
        let request = publicURL.naming(request)
        var response = await handler.respond(to: request)
        if request.clientAddress != request.peerAddress { response.trace.clientAddress = request.clientAddress }
        return response
    }
}
