internal import Bytes
package import HTTPClient
internal import SettingsKit
internal import Transport

/// A host that callbacks may be sent to: `app.example.com`, `10.1.2.3:8000`, `[fd00::1]:8000`, `*.example.com`.
///
/// Without a port, the scheme's default applies. A star matches one or more labels.
package struct CallbackHost: Sendable, Equatable {
    /// In lower case; an address without brackets.
    private let name: String
    private let address: IPAddress?
    private let port: UInt16?
    /// Whether it is a wildcard, so that the operator has not named each host.
    package let isWildcard: Bool

    /// Parses a host; `nil` if it is invalid.
    package init?(_ text: String) {
        isWildcard = text.hasPrefix("*.")
        let host = isWildcard ? String(text.dropFirst(2)) : text
        guard let place = ListenAddress(host) ?? ListenAddress(host + ":0") else { return nil }
        name = place.host.lowercasedASCII()
        address = IPAddress(name)
        port = place.port == 0 ? nil : place.port
        if isWildcard, address != nil { return nil }
    }

    /// Whether a URL has this host and port.
    package func covers(_ url: WebAddress) -> Bool {
        covers(name: url.host) && (port.map { $0 == url.port } ?? url.hasDefaultPort)
    }

    /// Whether it matches a name in lower case, or an address without brackets.
    package func covers(name other: String) -> Bool {
        if isWildcard { return other.hasSuffix("." + name) && other.utf8.first != UInt8(ascii: ".") }
        // An address has several spellings.
        return address.map { $0 == IPAddress(other) } ?? (name == other)
    }
}
