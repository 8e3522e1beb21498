internal import Foundation
internal import GatewayKit
internal import ObjectGateway
internal import SettingsKit
internal import SystemIO
internal import Transport

extension Doctor {
    // MARK: Listeners

    func listeners() async -> [Diagnosis] {
        let gateway = settings.general.gateway.listen
        let answers = HealthCheck.problem(settings, isReadiness: false, timeout: .seconds(5)) == nil
        var results = [listener("gateway.listen", gateway, isServed: answers)]
        if settings.acme.isOn, settings.acme.challenge == .http {
            results.append(listener("acme.httpListen", settings.acme.httpListen, isServed: answers))
        }
        if let objects = settings.object.listen {
            results.append(listener("object.listen", objects, isServed: answers))
            if objects == gateway, objects.port != 0 || objects.unixPath != nil {
                results.append(
                    .failed("object.listen", "it is the same address as gateway.listen: choose another port")
                )
            }
        }
        guard answers else { return results + [.ok("gateway", "it does not run")] }
        let problem = HealthCheck.problem(settings, isReadiness: true, timeout: .seconds(10))
        return results + [
            problem.map { .failed("gateway", "it runs and is not ready: \($0)") }
                ?? .ok("gateway", "it runs and is ready")
        ]
    }

    /// Whether one can listen at the address; `isServed` says that a gateway with these settings runs.
    private func listener(_ check: String, _ listen: ListenAddress, isServed: Bool) -> Diagnosis {
        do throws(SystemError) {
            try SocketAddress(resolving: listen.host, port: listen.port).checkBindable()
            return .ok(check, "\(listen) is free")
        } catch {
            switch error.errno {
            case EADDRINUSE where isServed: return .ok(check, "\(listen) is held by the running gateway")
            case EADDRINUSE:
                return .failed(
                    check,
                    "another program listens on \(listen), and it does not answer as this gateway: stop it, or choose another address"
                )
            case EACCES:
                return .failed(
                    check,
                    "user \(geteuid()) may not listen on \(listen): choose a port from 1024 on, or another directory for a Unix socket"
                )
            case EADDRNOTAVAIL:
                return .failed(check, "\(listen) is not an address of this machine: use one of its own, or 0.0.0.0")
            default: return .failed(check, "cannot listen on \(listen): \(error)")
            }
        }
    }

    // MARK: Proxies

    func proxies() -> [Diagnosis] {
        let general = settings.general
        let isLocal = Self.isLocal(general.gateway.listen)
        let hasTLS = settings.servesTLS
        let trusted = general.trustedProxies
        var results: [Diagnosis] = []
        if trusted.contains(where: {
            $0.contains("192.0.2.1") && $0.contains("198.51.100.1") && $0.contains("203.0.113.1")
        }) {
            results.append(
                .warning(
                    "trustedProxies",
                    "every client is trusted to name its own address, which limits, logs and hooks then show: name only the proxies"
                )
            )
        }
        let url = general.publicURL
        if let url, url.hasPrefix("https://"), !hasTLS, trusted.isEmpty {
            results.append(
                .warning(
                    "trustedProxies",
                    "publicURL is https and the gateway has no certificate, so a proxy must be in front of it, and none is trusted: all clients count as one address for limits; name the proxy"
                )
            )
        }
        if !isLocal, !hasTLS, trusted.isEmpty {
            results.append(
                .warning(
                    "gateway.listen",
                    "\(general.gateway.listen) can be reached from other machines without TLS, so credentials can be read on the way: set tls.certificate and tls.key, or acme.domains, or use a proxy with TLS and name it in trustedProxies"
                )
            )
        }
        if let url, url.hasPrefix("http://"), hasTLS {
            results.append(
                .warning(
                    "publicURL",
                    "\(url) is http, and the gateway speaks only TLS: clients are sent to an address that does not answer; use https"
                )
            )
        }
        if let base = general.gateway.basePath, let url, url.split(separator: "/").count > 2,
            !url.hasSuffix("\(base)")
        {
            results.append(
                .warning(
                    "publicURL",
                    "URLs in responses begin with \(url), and requests are served below \(base): this is right only if a proxy replaces the one path by the other"
                )
            )
        }
        return results.isEmpty
            ? [.ok("proxies", trusted.isEmpty ? "none is trusted" : "\(trusted.count) ranges are trusted")] : results
    }

    private static func isLocal(_ listen: ListenAddress) -> Bool {
        listen.unixPath != nil || listen.host == "localhost" || listen.host == "::1" || listen.host.hasPrefix("127.")
    }
}
