internal import CCurl

/// An HTTP proxy, reached by plain TCP or TLS.
///
/// Requests to `https` URLs use a tunnel (CONNECT, RFC 9110 §9.3.6); the proxy can read requests to `http` URLs.
package struct WebProxy: Sendable, Equatable {
    /// `scheme://host:port`.
    package let origin: String
    let user: String?
    let password: String?

    /// Parses a URL such as `http://user:password@proxy.example:3128`; the default port is that of the scheme.
    ///
    /// `nil` unless it is an absolute http or https URL with a host and without path or query.
    package init?(_ text: String) {
        guard let address = WebAddress(text), address.path == "/", let url = curl_url() else { return nil }
        defer { curl_url_cleanup(url) }
        let decoded = UInt32(CURLU_URLDECODE)
        guard curl_url_set(url, CURLUPART_URL, address.text, 0) == CURLUE_OK,
            WebAddress.part(CURLUPART_QUERY, of: url) == nil
        else { return nil }
        origin = address.origin
        user = WebAddress.part(CURLUPART_USER, of: url, flags: decoded)
        password = WebAddress.part(CURLUPART_PASSWORD, of: url, flags: decoded)
    }
}

extension WebProxy: CustomStringConvertible, CustomDebugStringConvertible {
    /// Without the password, which the default description would show.
    package var description: String { origin }
    package var debugDescription: String { origin }
}
