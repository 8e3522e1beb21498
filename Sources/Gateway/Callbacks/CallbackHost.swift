internal import HTTPClient
internal import Transport

/// A host that callbacks may be sent to: `app.example.com`, `10.1.2.3:8000`, `[fd00::1]:8000`, `*.example.com`.
///
/// Without a port it is that of the scheme. A star stands for one or more labels.
struct CallbackHost: Sendable, Equatable {
    /// In lower case; an address without brackets.
    private let name: String
    private let address: IPAddress?
    private let port: UInt16?
    /// Whether the operator has not named every host of these.
    let isWildcard: Bool

    /// The host in `text`; `nil` if it is none.
    init?(_ text: String) {
        isWildcard = text.hasPrefix("*.")
        let host = isWildcard ? String(text.dropFirst(2)) : text
        guard let place = ListenAddress(host) ?? ListenAddress(host + ":0") else { return nil }
        name = place.host.lowercased()
        address = IPAddress(name)
        port = place.port == 0 ? nil : place.port
        if isWildcard, address != nil { return nil }
    }

    /// Whether a URL is one of this host, at the port that is meant.
    func covers(_ url: WebAddress) -> Bool {
        covers(name: url.host) && (port.map { $0 == url.port } ?? url.hasDefaultPort)
    }

    /// Whether this host is meant by a name, which is in lower case, or an address without brackets.
    func covers(name other: String) -> Bool {
        if isWildcard { return other.hasSuffix("." + name) && other.utf8.first != UInt8(ascii: ".") }
        // An address has several spellings.
        return address.map { $0 == IPAddress(other) } ?? (name == other)
    }
}
