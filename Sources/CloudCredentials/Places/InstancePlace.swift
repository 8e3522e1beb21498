internal import Foundation
internal import HTTPClient
internal import Signing

/// The role of the instance, by version 2 of its metadata service ("Use IMDSv2", Amazon EC2 User Guide).
///
/// Version 1 is not asked: whoever makes the gateway send a plain GET could read it as well.
struct InstancePlace: CredentialsPlace {
    private static let role = "/latest/meta-data/iam/security-credentials/"

    private let environment: CredentialsEnvironment
    private let service: CredentialsService

    /// - Parameters:
    ///   - environment: Of the process.
    ///   - client: Asks the service.
    ///   - timeout: Of each request; short, as elsewhere nobody answers, and the start waits for that.
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

    func look() async throws(CredentialsError) -> Finding {
        guard environment["AWS_EC2_METADATA_DISABLED"]?.lowercased() != "true" else {
            return .nothing("AWS_EC2_METADATA_DISABLED is set")
        }
        let endpoint = endpoint
        guard let shown = WebAddress(endpoint)?.shown else {
            throw CredentialsError("AWS_EC2_METADATA_SERVICE_ENDPOINT is no absolute http or https URL")
        }
        let token: HTTPClientResponse
        do throws(HTTPClientError) {
            token = try await service.send(
                "PUT",
                endpoint + "/latest/api/token",
                headers: [("X-aws-ec2-metadata-token-ttl-seconds", "300")]
            )
        } catch {
            return .nothing("no answer from \(shown): \(error.message)")
        }
        guard token.status == 200 else { return .nothing("\(shown) gave no token: it answered \(token.status)") }
        let fields = [(name: "X-aws-ec2-metadata-token", value: String(decoding: token.body, as: UTF8.self))]

        let list = try await get(endpoint + Self.role, fields)
        if list.status == 404 { return .nothing("the instance has no role") }
        try check(list, "the role of the instance")
        let names = String(decoding: list.body, as: UTF8.self).split(whereSeparator: \.isNewline)
        guard let name = names.first else { return .nothing("the instance has no role") }

        let answer = try await get(endpoint + Self.role + SigningRequest.path(of: String(name)), fields)
        try check(answer, "the credentials of the role")
        return .found(try CredentialsAnswer.credentials(in: answer.body))
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

    private func check(_ answer: HTTPClientResponse, _ what: String) throws(CredentialsError) {
        guard answer.status == 200 else {
            throw CredentialsError("when asked for \(what), it answered \(answer.status)")
        }
    }
}
