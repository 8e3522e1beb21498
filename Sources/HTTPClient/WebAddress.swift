internal import Bytes
internal import CCurl
package import Transport

/// An absolute http or https URL as libcurl parses it, so the checked URL is exactly the one that is used.
///
/// The libcurl pointers live within one call.
package struct WebAddress: Sendable, Equatable {
    /// The complete URL.
    package let text: String
    /// Without user, password, query and fragment: safe to log.
    package let shown: String
    /// `scheme://host:port`, in lower case and with the default port.
    package let origin: String
    /// In lower case; an IPv6 address without brackets.
    package let host: String
    package let port: UInt16
    /// Whether the port is the default port of the scheme.
    package let hasDefaultPort: Bool
    /// Percent-encoded, beginning with a slash.
    package let path: String
    /// The host as an address, in any notation; `nil` if it is a name.
    package let address: IPAddress?

    /// The loopback address if the host is `localhost` or a name below it (RFC 6761 §6.3).
    let loopback: IPAddress?

    /// Whether the host is this machine.
    package var isLoopback: Bool {
        guard let address else { return loopback != nil }
        return address.isIPv6 ? address == IPAddress("::1") : address.bytes[0] == 127
    }

    /// Parses `text`; `nil` unless it is an absolute http or https URL with a host.
    package init?(_ text: String) { self.init(text, relativeTo: nil) }

    /// Resolves `location`, absolute or relative, from a response of `base` (RFC 3986 §5).
    init?(_ location: String, relativeTo base: WebAddress?) {
        // libcurl would stop reading at it.
        guard !location.utf8.contains(0), let url = curl_url() else { return nil }
        defer { curl_url_cleanup(url) }
        if let base, curl_url_set(url, CURLUPART_URL, base.text, 0) != CURLUE_OK { return nil }
        guard curl_url_set(url, CURLUPART_URL, location, 0) == CURLUE_OK else { return nil }
        let defaultPort = UInt32(CURLU_DEFAULT_PORT)
        guard let scheme = Self.part(CURLUPART_SCHEME, of: url)?.lowercasedASCII(),
            scheme == "http" || scheme == "https",
            // Its percent-encoding is decoded.
            let host = Self.part(CURLUPART_HOST, of: url)?.lowercasedASCII(), !host.isEmpty, ClientText.isAllowed(host),
            let port = Self.part(CURLUPART_PORT, of: url, flags: defaultPort), let number = UInt16(port),
            let path = Self.part(CURLUPART_PATH, of: url)
        else { return nil }
        origin = "\(scheme)://\(host):\(port)"
        self.path = path
        self.host = host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : host
        self.port = number
        hasDefaultPort = number == (scheme == "https" ? 443 : 80)
        address = IPAddress(self.host)
        let name = host.hasSuffix(".") ? host.dropLast() : host[...]
        let isLoopback = name == "localhost" || name.hasSuffix(".localhost")
        loopback = isLoopback ? IPAddress("127.0.0.1") : nil
        // Fragments are not sent, and not needed here.
        curl_url_set(url, CURLUPART_FRAGMENT, nil, 0)
        guard let text = Self.part(CURLUPART_URL, of: url) else { return nil }
        self.text = text
        for part in [CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_OPTIONS, CURLUPART_QUERY] {
            curl_url_set(url, part, nil, 0)
        }
        guard let shown = Self.part(CURLUPART_URL, of: url) else { return nil }
        self.shown = shown
    }

    static func part(_ part: CURLUPart, of url: OpaquePointer, flags: UInt32 = 0) -> String? {
        var text: UnsafeMutablePointer<CChar>?
        guard ccurl_url_get(url, part, &text, flags) == CURLUE_OK, let text else { return nil }
        defer { curl_free(text) }
        return String(cString: text)
    }
}
