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
    package static func problem(_ settings: Settings, isReadiness: Bool, timeout: Duration) async -> String? {
        let path = isReadiness ? "/readyz" : "/healthz"
        let url = url(of: settings, path: path)
        let (status, body): (Int, [UInt8])
        if settings.general.tls.certificate == nil {
            do throws(SystemError) {
                let response = try PlainExchange.response(
                    to: request(path, server(of: settings)),
                    from: try address(of: settings),
                    limit: 65_536,
                    within: timeout
                )
                guard let parts = parts(response) else { return "\(url) returned no response of HTTP" }
                (status, body) = parts
            } catch {
                return "\(url): \(error)"
            }
        } else {
            // Its certificate is for the name by which clients reach it.
            let client = HTTPClient(
                userAgent: agent,
                maximumTransfers: 1,
                addresses: .any,
                verifiesCertificates: false,
                server: server(of: settings)
            )
            defer { client.close() }
            do throws(HTTPClientError) {
                let response = try await client.send(HTTPClientRequest(url: url, timeout: timeout), within: timeout)
                (status, body) = (response.status, response.body)
            } catch {
                return "\(url): \(error.message)"
            }
        }
        if status == 200 { return nil }
        let text = String(decoding: body.prefix(1000), as: UTF8.self)
        // One line, whatever answered.
        let line = text.split(whereSeparator: \.isNewline).joined(separator: " ")
        return "\(url) returned status \(status): \(line)"
    }

    private static var agent: String { "sluice-health/\(Version.current)" }

    private static func request(_ path: String, _ server: LocalServer) -> [UInt8] {
        let proxy = server.expectsProxyHeader ? "PROXY UNKNOWN\r\n" : ""
        let fields = "Host: localhost\r\nUser-Agent: \(agent)\r\nConnection: close"
        return Array("\(proxy)GET \(path) HTTP/1.1\r\n\(fields)\r\n\r\n".utf8)
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
        let own = tls.clientAuthorities == nil ? nil : tls.files.first.map { (path: $0.certificate, key: $0.key) }
        return LocalServer(
            unixPath: gateway.listen.unixPath,
            expectsProxyHeader: gateway.expectsProxyHeader
                && settings.general.trustedProxies.contains { $0.contains(host == "localhost" ? "127.0.0.1" : host) },
            certificate: own
        )
    }

    static func url(of settings: Settings, path: String) -> String {
        let listen = settings.general.gateway.listen
        let scheme = settings.general.tls.certificate == nil ? "http" : "https"
        if listen.unixPath != nil { return "\(scheme)://localhost\(path)" }
        return "\(scheme)://\(listen.onThisMachine)\(path)"
    }
}
