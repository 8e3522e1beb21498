internal import Transport

/// Where to listen: `127.0.0.1:8080`, `[::1]:8080`, `localhost:0`, `unix:/run/sluice/gateway.sock`.
package struct ListenAddress: Sendable, Hashable, CustomStringConvertible {
    /// A numeric address without brackets, a name, or `unix:` and the absolute path of a Unix socket.
    package let host: String
    /// 0 lets the system choose one.
    package let port: UInt16

    package init(host: String, port: UInt16) {
        self.host = host
        self.port = port
    }

    package var unixPath: String? { SocketAddress(host: host, port: port).unixPath }

    /// Where a client on this machine finds it: `0.0.0.0` and `::` mean all of its addresses, and are none to connect to.
    package var onThisMachine: ListenAddress {
        switch host {
        case "0.0.0.0": ListenAddress(host: "127.0.0.1", port: port)
        case "::": ListenAddress(host: "::1", port: port)
        default: self
        }
    }

    /// The address in `text`; `nil` unless it has a host and a port, or an absolute path.
    package init?(_ text: some StringProtocol) {
        if let path = SocketAddress(host: String(text), port: 0).unixPath {
            // `.new` is appended while the socket is made.
            guard path.hasPrefix("/"), !path.hasSuffix("/"), path.utf8.count + 4 <= SocketAddress.maximumUnixPath,
                !path.utf8.contains(0)
            else { return nil }
            self.init(host: String(text), port: 0)
            return
        }
        guard let colon = text.lastIndex(of: ":") else { return nil }
        let digits = text[text.index(after: colon)...]
        guard digits.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }), let port = UInt16(digits) else { return nil }
        var host = String(text[..<colon])
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = String(host.dropFirst().dropLast())
            guard host.contains(":"), IPAddress(host) != nil else { return nil }
        } else {
            guard Self.isName(host) || IPAddress(host) != nil, !host.contains(":") else { return nil }
        }
        self.init(host: host, port: port)
    }

    package var description: String { SocketAddress(host: host, port: port).description }

    /// RFC 1123 §2.1: labels of letters, digits and hyphens; one of digits and dots only must be an address.
    private static func isName(_ host: String) -> Bool {
        let labels = host.split(separator: ".", omittingEmptySubsequences: false)
        guard host.utf8.count <= 253, let last = labels.last, !last.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 })
        else { return false }
        return labels.allSatisfy { label in
            (1...63).contains(label.utf8.count) && label.first != "-" && label.last != "-"
                && label.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-") }
        }
    }
}
