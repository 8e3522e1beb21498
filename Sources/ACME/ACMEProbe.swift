internal import Digests
internal import Foundation
internal import GatewayKit
internal import HTTPClient
package import SettingsKit

/// Asks a certificate authority for its directory, without an account.
package enum ACMEProbe {
    /// - Returns: `nil` if it is there, or what is wrong.
    package static func problem(_ settings: Settings) async -> String? {
        let web = ACMEModule.client(trusting: settings.acme.authorities)
        defer { web.close() }
        let client = ACMEClient(
            directory: settings.acme.directory,
            key: P256Key(),
            now: { Date().timeIntervalSince1970 },
            // The one request has its own limit.
            elapsed: { .zero },
            sending: { (request) async throws(HTTPClientError) in try await web.send(request) }
        )
        do throws(ACMEFailure) {
            let directory = try await client.directory()
            if directory.wantsBinding, settings.acme.bindingKeyID == nil {
                return "this certificate authority wants an account that it knows: set acme.eabKeyId and acme.eabKey"
            }
            return nil
        } catch {
            return error.description
        }
    }
}
