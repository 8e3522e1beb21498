internal import CCurl

/// A proxy that speaks HTTP, by plain TCP or by TLS.
///
/// What is asked with `https` goes through a tunnel (CONNECT, RFC 9110 §9.3.6); the proxy sees what is asked with `http`.
package struct WebProxy: Sendable, Equatable {
    /// `scheme://host:port`.
    package let origin: String
    let user: String?
    let password: String?

    /// The proxy at a URL such as `http://user:password@proxy.example:3128`; without a port it is that of the scheme.
    ///
    /// `nil` unless it is absolute, http or https, and has a host, and no path or query.
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
    /// Without the password, which would else be told by reflection.
    package var description: String { origin }
    package var debugDescription: String { origin }
}
