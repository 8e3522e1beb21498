internal import CCurl
internal import Glibc

/// The sockets of a loop's connections, which libcurl does not expose during a transfer; accessed only on its thread.
final class OpenSockets {
    /// The ports of each socket, by its descriptor; `nil` until they are needed.
    private var ports: [Int32: Ports?] = [:]

    private struct Ports: Equatable {
        var local: Int32
        var remote: Int32
    }

    func open(_ address: UnsafePointer<curl_sockaddr>) -> curl_socket_t {
        let socket = ccurl_open_socket(address)
        if socket != ccurl_bad_socket { ports.updateValue(nil, forKey: socket) }
        return socket
    }

    func close(_ socket: curl_socket_t) -> Int32 {
        ports[socket] = nil
        return Glibc.close(socket)
    }

    /// The socket between two ports; `nil` if it is unknown.
    ///
    /// Connections to other hosts can have the same ports, so correctness must not depend on the result.
    func socket(local: Int32, remote: Int32) -> curl_socket_t? {
        let sought = Ports(local: local, remote: remote)
        for socket in ports.keys where self.ports(of: socket) == sought { return socket }
        return nil
    }

    private func ports(of socket: Int32) -> Ports? {
        if let known = ports[socket] ?? nil { return known }
        var found = Ports(local: 0, remote: 0)
        guard ccurl_socket_ports(socket, &found.local, &found.remote) == 0 else { return nil }
        ports[socket] = found
        return found
    }

    /// Whether the peer has sent something or closed the connection.
    static func hasInput(_ socket: curl_socket_t) -> Bool {
        var entry = pollfd(fd: socket, events: Int16(POLLIN), revents: 0)
        return poll(&entry, 1, 0) > 0
    }
}
