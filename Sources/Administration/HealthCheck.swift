internal import Foundation
internal import GatewayKit
internal import HTTPClient
package import SettingsKit
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
        // Its certificate is for the name by which clients reach it.
        let client = HTTPClient(
            userAgent: "sluice-health/\(Version.current)",
            maximumTransfers: 1,
            addresses: .any,
            verifiesCertificates: false,
            server: server(of: settings)
        )
        defer { client.close() }
        let url = url(of: settings, path: isReadiness ? "/readyz" : "/healthz")
        do throws(HTTPClientError) {
            let response = try await client.send(HTTPClientRequest(url: url, timeout: timeout), within: timeout)
            if response.status == 200 { return nil }
            let text = String(decoding: response.body.prefix(1000), as: UTF8.self)
            // One line, whatever answered.
            let line = text.split(whereSeparator: \.isNewline).joined(separator: " ")
            return "\(url) returned status \(response.status): \(line)"
        } catch {
            return "\(url): \(error.message)"
        }
    }

    private static func server(of settings: Settings) -> LocalServer {
        let gateway = settings.general.gateway
        // A connection to an address of this machine comes from the same one.
        let host = host(of: gateway.listen)
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

    private static func host(of listen: ListenAddress) -> String {
        switch listen.host {
        // Those that mean all of this machine.
        case "0.0.0.0": "127.0.0.1"
        case "::": "::1"
        default: listen.host
        }
    }

    static func url(of settings: Settings, path: String) -> String {
        let listen = settings.general.gateway.listen
        let scheme = settings.general.tls.certificate == nil ? "http" : "https"
        if listen.unixPath != nil { return "\(scheme)://localhost\(path)" }
        let host = host(of: listen)
        return "\(scheme)://\(host.contains(":") ? "[\(host)]" : host):\(listen.port)\(path)"
    }
}
