internal import Foundation
package import HTTPClient
internal import Synchronization
package import SystemIO

/// The places where AWS's tools look for credentials, in order.
///
/// The first place that has some is used from then on.
///
/// "Standardized credential providers" (AWS SDKs and Tools Reference Guide): the environment, web identity, the shared
/// credentials file, the container, the instance metadata. Not supported: roles, SSO and processes in profiles.
package final class CredentialsChain: Sendable {
    private let places: [any CredentialsPlace]
    /// The place that had credentials.
    private let chosen = Mutex<(any CredentialsPlace)?>(nil)

    init(_ places: [any CredentialsPlace]) { self.places = places }

    /// - Parameters:
    ///   - environment: The environment of the process at its start.
    ///   - home: Its home directory.
    ///   - region: The region of AWS's token service, unless the environment has one.
    ///   - machine: For services of this machine or container, therefore without a proxy.
    ///   - cloud: For the token service.
    ///   - pool: Reads files.
    ///   - timeout: For a request to the token service.
    package convenience init(
        environment: [String: String],
        home: String,
        region: String,
        machine: HTTPClient,
        cloud: HTTPClient,
        pool: BlockingPool,
        timeout: Duration = .seconds(5)
    ) {
        let environment = CredentialsEnvironment(environment)
        let files = SmallFiles(home: home, pool: pool)
        self.init([
            EnvironmentPlace(environment: environment),
            WebIdentityPlace(
                environment: environment,
                region: region,
                client: cloud,
                files: files,
                timeout: timeout
            ),
            SharedFilePlace(environment: environment, files: files),
            ContainerPlace(environment: environment, client: machine, files: files),
            InstancePlace(environment: environment, client: machine),
        ])
    }

    /// Fetches credentials.
    ///
    /// - Throws: The places that were tried, and the problem of each.
    func fetch() async throws(CredentialsError) -> FetchedCredentials {
        if let place = chosen.withLock({ $0 }) {
            switch try await Self.fetch(from: place) {
            case .found(let credentials): return credentials
            case .nothing(let reason): throw CredentialsError("\(place.name) no longer has credentials: \(reason)")
            }
        }
        var reasons: [String] = []
        for place in places {
            switch try await Self.fetch(from: place) {
            case .found(let credentials):
                chosen.withLock { $0 = place }
                return credentials
            case .nothing(let reason): reasons.append("\(place.name) (\(reason))")
            }
        }
        throw CredentialsError("none were found in " + reasons.joined(separator: ", "))
    }

    private static func fetch(from place: any CredentialsPlace) async throws(CredentialsError) -> Finding {
        do throws(CredentialsError) {
            return try await place.fetch()
        } catch {
            throw CredentialsError("\(place.name): \(error.message)")
        }
    }
}

/// AWS's environment variables; an empty one counts as not set.
///
/// Some are secret, so descriptions contain none of them.
struct CredentialsEnvironment: Sendable, CustomStringConvertible, CustomReflectable {
    private let variables: [String: String]

    init(_ variables: [String: String]) { self.variables = variables.filter { $0.key.hasPrefix("AWS_") } }

    subscript(_ name: String) -> String? { variables[name].flatMap { $0.isEmpty ? nil : $0 } }

    var description: String { "<redacted>" }

    var customMirror: Mirror { Mirror(self, children: []) }

    /// Timeout of services of the machine (`AWS_METADATA_SERVICE_TIMEOUT`, in whole seconds).
    var metadataTimeout: Duration? {
        self["AWS_METADATA_SERVICE_TIMEOUT"].flatMap { Int($0) }.flatMap { (1...300).contains($0) ? .seconds($0) : nil }
    }
}
