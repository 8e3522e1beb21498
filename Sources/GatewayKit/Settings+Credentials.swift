package import CloudCredentials
internal import Foundation
package import HTTPClient
package import SettingsKit
package import SystemIO
internal import Telemetry

extension Settings {
    /// The credential sources that AWS's own tools would use.
    ///
    /// - Parameters:
    ///   - region: Region of AWS's token service if the environment names none.
    ///   - client: Sends requests to that service.
    ///   - pool: Reads files.
    /// - Returns: The sources; none has been read yet.
    package static func credentialsChain(region: String, _ client: HTTPClient, pool: BlockingPool) -> CredentialsChain {
        let environment = ProcessInfo.processInfo.environment
        return CredentialsChain(
            environment: environment,
            home: environment["HOME"] ?? FileManager.default.homeDirectoryForCurrentUser.path,
            region: region,
            // Services on this machine are never reached through a proxy.
            machine: HTTPClient(userAgent: "Sluice/\(Version.current)", purpose: "credentials", addresses: .any),
            cloud: client,
            pool: pool
        )
    }
}
