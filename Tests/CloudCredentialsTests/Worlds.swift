import Foundation
import HTTPClient
import Signing
import SluiceTesting
import SystemIO
import Transport

@testable import CloudCredentials

/// What the places need, with timeouts longer than any delay on a busy machine.
enum World {
    static let client = HTTPClient(userAgent: "test", addresses: .any)
    static let pool = BlockingPool(threads: 2, label: "test")
    static let waitTimeout = Duration.seconds(300)

    static func files(_ home: String = "/nowhere") -> SmallFiles { SmallFiles(home: home, pool: pool) }

    static func container(_ variables: [String: String]) -> ContainerPlace {
        ContainerPlace(
            environment: CredentialsEnvironment(variables),
            client: client,
            files: files(),
            timeout: waitTimeout
        )
    }

    static func instance(_ variables: [String: String]) -> InstancePlace {
        InstancePlace(environment: CredentialsEnvironment(variables), client: client, timeout: waitTimeout)
    }

    static func webIdentity(_ variables: [String: String], region: String = "eu-west-1") -> WebIdentityPlace {
        WebIdentityPlace(
            environment: CredentialsEnvironment(variables),
            region: region,
            client: client,
            files: files(),
            timeout: waitTimeout
        )
    }

    static func sharedFile(_ variables: [String: String] = [:], home: String = "/nowhere") -> SharedFilePlace {
        SharedFilePlace(environment: CredentialsEnvironment(variables), files: files(home))
    }

    /// The response of containers and instances.
    static func response(_ id: String, until end: Date) -> TestServer.Reply {
        TestServer.Reply(
            200,
            """
            {"Code": "Success", "Type": "AWS-HMAC", "AccessKeyId": "\(id)", "SecretAccessKey": "secret-\(id)",
             "Token": "token-\(id)", "Expiration": "\(end.formatted(.iso8601))"}
            """
        )
    }
}

/// The credentials of a place, or why it has none.
enum Look: Equatable {
    case found(String, secret: String, token: String?, FetchedCredentials.Validity)
    case nothing(String)
    case wrong(String)

    init(_ place: any CredentialsPlace) async {
        do throws(CredentialsError) {
            switch try await place.fetch() {
            case .found(let fetched):
                self = .found(
                    fetched.value.accessKeyID,
                    secret: fetched.value.secretAccessKey,
                    token: fetched.value.sessionToken,
                    fetched.validity
                )
            case .nothing(let reason): self = .nothing(reason)
            }
        } catch {
            self = .wrong("\(error)")
        }
    }
}
