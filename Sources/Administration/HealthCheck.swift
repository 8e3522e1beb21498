internal import Bytes
internal import Foundation
internal import GatewayKit
internal import HTTPClient
package import SettingsKit
internal import SystemIO
internal import Telemetry
internal import Transport

/// Asks a gateway on this machine how it is, as a container's health check does.
package enum HealthCheck {
    /// - Parameters:
    ///   - settings: Of the gateway.
    ///   - isReadiness: Whether it must also reach its state and its storage.
    ///   - timeout: For the whole answer.
    /// - Returns: `nil` if it is well, or what is wrong.
    package static func problem(_ settings: Settings, isReadiness: Bool, timeout: Duration) -> String? {
        let path = isReadiness ? "/readyz" : "/healthz"
        let url = url(of: settings, path: path)
        // A server that closes early must not end the process by SIGPIPE.
        ProcessSetup.prepare()
        let server = server(of: settings)
        let response: [UInt8]
        do {
            response = try LocalExchange.response(
                to: request(path),
                from: address(of: settings),
                preamble: server.expectsProxyHeader ? Array("PROXY UNKNOWN\r\n".utf8) : [],
                security: settings.servesTLS ? .init(own: server.certificate) : nil,
                limit: 65_536,
                within: timeout
            )
        } catch {
            return "\(url): \(error)"
        }
        guard let (status, body) = parts(response) else { return "\(url) returned no response of HTTP" }
        if status == 200 { return nil }
        let text = String(decoding: body.prefix(1000), as: UTF8.self)
        // One line, whatever answered.
        return "\(url) returned status \(status): \(TerminalText.escaped(text.trimmingCharacters(in: .newlines)))"
    }

    private static var agent: String { "sluice-health/\(Version.current)" }

    private static func request(_ path: String) -> [UInt8] {
        let fields = "Host: localhost\r\nUser-Agent: \(agent)\r\nConnection: close"
        return Array("GET \(path) HTTP/1.1\r\n\(fields)\r\n\r\n".utf8)
    }

    private static func address(of settings: Settings) throws(SystemError) -> SocketAddress {
        let listen = settings.general.gateway.listen
        if let path = listen.unixPath { return SocketAddress(unixPath: path) }
        return try SocketAddress(resolving: listen.onThisMachine.host, port: listen.port)
    }

    /// Status and body of a response after which the connection was closed.
    private static func parts(_ response: [UInt8]) -> (Int, [UInt8])? {
        // As bytes, because the first use of characters costs more than the whole exchange.
        let words = response.prefix { $0 != UInt8(ascii: "\r") }.split(separator: UInt8(ascii: " "))
        guard words.count >= 2, words[0].starts(with: Array("HTTP/1.".utf8)),
            let status = Int(String(decoding: words[1], as: UTF8.self)),
            let end = response.firstRange(of: Array("\r\n\r\n".utf8))
        else { return nil }
        return (status, Array(response[end.upperBound...]))
    }

    static func server(of settings: Settings) -> LocalServer {
        let gateway = settings.general.gateway
        // A connection to an address of this machine comes from the same one.
        let host = gateway.listen.onThisMachine.host
        let tls = settings.general.tls
        // Its own, because it has no other that could be one of these authorities.
        let own = tls.clientAuthorities == nil ? nil : tls.files.first ?? settings.keptCertificate
        return LocalServer(
            unixPath: gateway.listen.unixPath,
            expectsProxyHeader: gateway.expectsProxyHeader
                && settings.general.trustedProxies.contains { $0.contains(host == "localhost" ? "127.0.0.1" : host) },
            certificate: own
        )
    }

    static func url(of settings: Settings, path: String) -> String {
        let listen = settings.general.gateway.listen
        let scheme = settings.servesTLS ? "https" : "http"
        if listen.unixPath != nil { return "\(scheme)://localhost\(path)" }
        return "\(scheme)://\(listen.onThisMachine)\(path)"
    }
}
