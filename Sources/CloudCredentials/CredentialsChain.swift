internal import Foundation
package import HTTPClient
internal import Synchronization
package import Transport

/// The places in which AWS's tools look for credentials, in their order; the first that has some is the only one from then on.
///
/// "Standardized credential providers" (AWS SDKs and Tools Reference Guide): the environment, web identity, the shared
/// credentials file, the container, the metadata of the instance. Roles, SSO and processes of profiles are not there.
package final class CredentialsChain: Sendable {
    private let places: [any CredentialsPlace]
    /// The one that had credentials.
    private let chosen = Mutex<(any CredentialsPlace)?>(nil)

    init(_ places: [any CredentialsPlace]) { self.places = places }

    /// - Parameters:
    ///   - environment: Of the process, at its start.
    ///   - home: Its home directory.
    ///   - region: For AWS's token service where the environment names none.
    ///   - machine: Asks services of this machine or container, so without a proxy.
    ///   - cloud: Asks the token service.
    ///   - pool: Reads files.
    ///   - timeout: Of a request to the token service.
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
    /// - Throws: Where was looked, and what is wrong there.
    func fetch() async throws(CredentialsError) -> FetchedCredentials {
        if let place = chosen.withLock({ $0 }) {
            switch try await Self.look(at: place) {
            case .found(let credentials): return credentials
            case .nothing(let reason): throw CredentialsError("\(place.name) has no credentials any more: \(reason)")
            }
        }
        var reasons: [String] = []
        for place in places {
            switch try await Self.look(at: place) {
            case .found(let credentials):
                chosen.withLock { $0 = place }
                return credentials
            case .nothing(let reason): reasons.append("\(place.name) (\(reason))")
            }
        }
        throw CredentialsError("none were found; looked at " + reasons.joined(separator: ", "))
    }

    private static func look(at place: any CredentialsPlace) async throws(CredentialsError) -> Finding {
        do throws(CredentialsError) {
            return try await place.look()
        } catch {
            throw CredentialsError("\(place.name): \(error.message)")
        }
    }
}

/// AWS's variables of the environment; one without a value counts as not set.
///
/// Some are secret, so none appears in a description.
struct CredentialsEnvironment: Sendable, CustomStringConvertible, CustomReflectable {
    private let variables: [String: String]

    init(_ variables: [String: String]) { self.variables = variables.filter { $0.key.hasPrefix("AWS_") } }

    subscript(_ name: String) -> String? { variables[name].flatMap { $0.isEmpty ? nil : $0 } }

    var description: String { "<redacted>" }

    var customMirror: Mirror { Mirror(self, children: []) }

    /// How long services of the machine may take for an answer (`AWS_METADATA_SERVICE_TIMEOUT`, in whole seconds).
    var metadataTimeout: Duration? {
        self["AWS_METADATA_SERVICE_TIMEOUT"].flatMap { Int($0) }.flatMap { (1...300).contains($0) ? .seconds($0) : nil }
    }
}
