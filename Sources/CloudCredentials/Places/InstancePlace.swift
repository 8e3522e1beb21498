internal import Foundation
internal import HTTPClient
internal import Signing

/// The role of the instance, from version 2 of its metadata service ("Use IMDSv2", Amazon EC2 User Guide).
///
/// Version 1 is not used: an attacker who makes the gateway send a plain GET could read it, too.
struct InstancePlace: CredentialsPlace {
    private static let role = "/latest/meta-data/iam/security-credentials/"

    private let environment: CredentialsEnvironment
    private let service: CredentialsService

    /// - Parameters:
    ///   - environment: The environment of the process.
    ///   - client: For the metadata service.
    ///   - timeout: For each request; short, because outside EC2 nothing responds and start-up waits for it.
    init(
        environment: CredentialsEnvironment,
        client: HTTPClient,
        timeout: Duration? = nil
    ) {
        self.environment = environment
        service = CredentialsService(client: client, timeout: timeout ?? environment.metadataTimeout ?? .seconds(1))
    }

    var name: String { "the metadata of the instance" }

    private var endpoint: String {
        guard let text = environment["AWS_EC2_METADATA_SERVICE_ENDPOINT"] else {
            let isIPv6 = environment["AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE"]?.lowercased() == "ipv6"
            return isIPv6 ? "http://[fd00:ec2::254]" : "http://169.254.169.254"
        }
        return text.hasSuffix("/") ? String(text.dropLast()) : text
    }

    func fetch() async throws(CredentialsError) -> Finding {
        guard environment["AWS_EC2_METADATA_DISABLED"]?.lowercased() != "true" else {
            return .nothing("AWS_EC2_METADATA_DISABLED is set")
        }
        let endpoint = endpoint
        guard let shown = WebAddress(endpoint)?.shown else {
            throw CredentialsError("AWS_EC2_METADATA_SERVICE_ENDPOINT is not an absolute http or https URL")
        }
        let token: HTTPClientResponse
        do throws(HTTPClientError) {
            token = try await service.send(
                "PUT",
                endpoint + "/latest/api/token",
                headers: [("X-aws-ec2-metadata-token-ttl-seconds", "300")]
            )
        } catch {
            return .nothing("no response from \(shown): \(error.message)")
        }
        guard token.status == 200 else { return .nothing("\(shown) gave no token: status \(token.status)") }
        let fields = [(name: "X-aws-ec2-metadata-token", value: String(decoding: token.body, as: UTF8.self))]

        let list = try await get(endpoint + Self.role, fields)
        if list.status == 404 { return .nothing("the instance has no role") }
        try check(list, "the role of the instance")
        let names = String(decoding: list.body, as: UTF8.self).split(whereSeparator: \.isNewline)
        guard let name = names.first else { return .nothing("the instance has no role") }

        let response = try await get(endpoint + Self.role + SigningRequest.path(of: String(name)), fields)
        try check(response, "the credentials of the role")
        return .found(try CredentialsResponse.credentials(in: response.body))
    }

    private func get(
        _ url: String,
        _ fields: [(name: String, value: String)]
    ) async throws(CredentialsError) -> HTTPClientResponse {
        do throws(HTTPClientError) {
            return try await service.send("GET", url, headers: fields)
        } catch {
            throw CredentialsError(error.message)
        }
    }

    private func check(_ response: HTTPClientResponse, _ what: String) throws(CredentialsError) {
        guard response.status == 200 else {
            throw CredentialsError("the request for \(what) failed with status \(response.status)")
        }
    }
}
