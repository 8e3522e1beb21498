internal import HTTPServer
package import HTTPWire
package import SettingsKit

/// Settings converted for the listeners.
extension Settings {
    var serverConfiguration: ServerConfiguration {
        var configuration = ServerConfiguration()
        configuration.head = HeadLimits(
            maximumRequestLine: limits.requestLine,
            maximumBytes: limits.headerBytes,
            maximumFields: limits.headerCount
        )
        configuration.maximumConnections = min(limits.connections, ProcessSetup.mostConnections)
        configuration.maximumConnectionsPerAddress = limits.address.connections
        configuration.headTimeout = timeouts.head
        configuration.idleTimeout = timeouts.idle
        configuration.bodyTimeout = timeouts.bodyProgress
        configuration.minimumBodyRate = limits.bodyRate
        configuration.writeTimeout = timeouts.write
        configuration.totalTimeout = timeouts.request ?? .zero
        configuration.shutdownGrace = timeouts.shutdownGrace
        return configuration
    }

    package var corsPolicy: CORSPolicy {
        guard cors.isEnabled else { return .disabled }
        switch cors.origins {
        case .any: return CORSPolicy(origins: .any)
        case .only(let list): return CORSPolicy(origins: .only(Set(list)))
        }
    }
}
